#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command_line.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

/// `text` as one word of a POSIX shell.
std::string shell_word(std::string_view text) {
  std::string out = "'";
  for (const char each : text) out += each == '\'' ? std::string("'\\''") : std::string(1, each);
  return out + "'";
}

std::string all_names(const verb_description& verb) {
  std::string out;
  for (const auto& option : verb.options) {
    for (const std::string& name : option.names) out += (out.empty() ? "" : " ") + name;
  }
  return out;
}

/// Lines of a `case` over the command and the option before the word: `head:--format) values='text csv' ;;`.
std::string value_cases(const verb_description& verb, std::string_view form) {
  std::string out;
  for (const auto& option : verb.options) {
    if (option.values.empty()) continue;
    for (const std::string& name : option.names)
      out += fmt::format(fmt::runtime(form), fmt::arg("verb", verb.name), fmt::arg("name", name),
                         fmt::arg("values", fmt::join(option.values, " ")));
  }
  return out;
}

std::string bash_script(const std::vector<verb_description>& verbs) {
  std::string names, cases, values;
  for (const verb_description& verb : verbs) {
    names += (names.empty() ? "" : " ") + verb.name;
    if (verb.name == "completion") continue;
    cases += fmt::format("    {}) options={} ;;\n", verb.name, shell_word(all_names(verb)));
    values += value_cases(verb, "    {verb}:{name}) COMPREPLY=($(compgen -W '{values}' -- \"$word\")); return ;;\n");
  }
  return R"sh(# penstock completion for bash: eval "$(penstock completion bash)"
_penstock() {
  local word="${COMP_WORDS[COMP_CWORD]}" options=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ')sh" +
         names + R"sh( --help --version' -- "$word"))
    return
  fi
  case "${COMP_WORDS[1]}" in
    completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- "$word")); return ;;
)sh" + cases +
         R"sh(  esac
  case "${COMP_WORDS[1]}:${COMP_WORDS[COMP_CWORD-1]}" in
)sh" + values +
         R"sh(  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}
complete -o filenames -F _penstock penstock
)sh";
}

std::string zsh_script(const std::vector<verb_description>& verbs) {
  std::string names, cases, values;
  for (const verb_description& verb : verbs) {
    std::string text;  // a colon ends the name
    for (const char each : verb.what) text += each == ':' ? std::string("\\:") : std::string(1, each);
    names += fmt::format("    {}\n", shell_word(verb.name + ":" + text));
    if (verb.name == "completion") continue;
    cases += fmt::format("    {}) options=({}) ;;\n", verb.name, all_names(verb));
    values += value_cases(verb, "    {verb}:{name}) compadd {values}; return ;;\n");
  }
  return R"sh(#compdef penstock
# penstock completion for zsh: penstock completion zsh > a file _penstock in $fpath, or eval it after compinit
_penstock() {
  local -a verbs options
  verbs=(
)sh" + names +
         R"sh(  )
  if (( CURRENT == 2 )); then
    _describe 'command' verbs
    return
  fi
  case "${words[2]}" in
    completion) compadd bash zsh fish; return ;;
)sh" + cases +
         R"sh(  esac
  case "${words[2]}:${words[CURRENT-1]}" in
)sh" + values +
         R"sh(  esac
  if [[ "${words[CURRENT]}" == -* ]]; then
    compadd -- $options
  else
    _files
  fi
}
compdef _penstock penstock
)sh";
}

/// `text` as one word of fish.
std::string quoted_for_fish(std::string_view text) {
  std::string out = "'";
  for (const char each : text) {
    if (each == '\'' || each == '\\') out += '\\';
    out += each;
  }
  return out + "'";
}

std::string fish_script(const std::vector<verb_description>& verbs) {
  std::string out = "# penstock completion for fish: penstock completion fish | source\n";
  for (const verb_description& verb : verbs) {
    out += fmt::format("complete -c penstock -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                       quoted_for_fish(verb.what));
    for (const auto& option : verb.options) {
      out += fmt::format("complete -c penstock -n '__fish_seen_subcommand_from {}'", verb.name);
      for (const std::string& name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.values.empty())
        out += fmt::format(" -x -a {}", quoted_for_fish(fmt::format("{}", fmt::join(option.values, " "))));
      else if (option.takes_value)
        out += " -r";
      out += fmt::format(" -d {}\n", quoted_for_fish(option.what));
    }
  }
  return out + "complete -c penstock -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
}

}  // namespace

void add_completion(command_line& line) {
  auto shell = std::make_shared<std::string>();
  command verb = line.add("completion", "Print a script that completes commands and options in a shell", false);
  verb.required("SHELL", *shell, {"bash", "zsh", "fish"}, "The shell that is to read the script");
  verb.footer(
      "Examples:\n  eval \"$(penstock completion bash)\"\n  penstock completion zsh > ~/.zfunc/_penstock\n"
      "  penstock completion fish | source");
  verb.runs([shell, &line](const session& speak) {
    const std::vector<verb_description> verbs = line.describe();
    if (*shell == "bash") return speak.print(bash_script(verbs));
    return speak.print(*shell == "zsh" ? zsh_script(verbs) : fish_script(verbs));
  });
}

}  // namespace penstock::inline v0::cli
