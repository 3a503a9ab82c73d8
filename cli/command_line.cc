#include "command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/nearest_word.h"

namespace penstock::inline v0::cli {
namespace {

std::string not_negative(const std::string& given) {
  return given.starts_with('-') ? fmt::format("must be 0 or more, got {}", given) : std::string();
}

}  // namespace

void command::required(const char* name, std::string& value, const char* what) {
  app_->add_option(name, value, what)->required();
}

void command::required(const char* name, std::string& value, std::vector<std::string> one_of, const char* what) {
  permit(app_->add_option(name, value, what)->required(), std::move(one_of));
}

void command::option(const char* name, std::string& value, const char* what) { app_->add_option(name, value, what); }

void command::option(const char* name, std::size_t& value, const char* what) {
  // The parsing library converts a negative number to one near 2^64.
  app_->add_option(name, value, what)->check(not_negative, "")->capture_default_str();
}

void command::option(const char* name, double& value, const char* what) {
  app_->add_option(name, value, what)->check(not_negative, "")->capture_default_str();
}

void command::option(const char* name, std::vector<std::string>& values, int count, const char* what) {
  app_->add_option(name, values, what)->expected(count);
}

void command::option(const char* name, std::string& value, std::vector<std::string> one_of, const char* what) {
  permit(app_->add_option(name, value, what), std::move(one_of));
}

void command::option(const char* name, int& value, std::vector<int> one_of, const char* what) {
  std::vector<std::string> texts;
  for (const int each : one_of) texts.push_back(fmt::format("{}", each));
  permit(app_->add_option(name, value, what), std::move(texts));
}

void command::permit(CLI::Option* option, std::vector<std::string> one_of) {
  const auto check = [one_of](const std::string& given) {
    if (std::find(one_of.begin(), one_of.end(), given) != one_of.end()) return std::string();
    return fmt::format("'{}' is not one of {}{}", given, fmt::join(one_of, ", "), suggestion(given, one_of));
  };
  option->check(check, fmt::format("{{{}}}", fmt::join(one_of, ",")));
  (*values_)[option] = std::move(one_of);
}

void command::threads(unsigned& value, const char* what) {
  app_->add_option("--threads", value, what)->check(CLI::Range(1, 4096).description(""));
}

void command::flag(const char* name, bool& value, const char* what, const char* excludes) {
  CLI::Option* added = app_->add_flag(name, value, what);
  if (excludes != nullptr) added->excludes(app_->get_option(excludes));
}

void command::storage(storage_flags& flags) {
  const char* const group = "Remote storage";
  for (const storage_flag& each : known_storage_flags()) {
    const std::string name = each.name();
    switch (each.takes) {
      case storage_flag::kind::on:
        app_->add_flag(name, flags.on[each.option], each.what)->group(group);
        break;
      case storage_flag::kind::text:
        app_->add_option(name, flags.texts[each.option], each.what)->group(group);
        break;
      case storage_flag::kind::header:
        app_->add_option(name, flags.headers, each.what)
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->group(group);
        break;
    }
  }
  app_->add_flag("--allow-local", flags.allow_local, "References may name files on this machine")->group(group);
}

void command::json(const char* what) { app_->add_flag("--json", *as_json_, what); }

void command::listed(const char* name, const char* what, bool takes_value, std::vector<std::string> one_of) {
  CLI::Option* const added =
      takes_value ? app_->add_option(name, CLI::callback_t(), what) : app_->add_flag_callback(name, [] {}, what);
  if (!one_of.empty()) (*values_)[added] = std::move(one_of);
}

void command::footer(const char* text) { app_->footer(text); }

void command::runs(action chosen) {
  app_->callback([to = chosen_, chosen = std::move(chosen)] { *to = chosen; });
}

command_line::command_line(const char* examples)
    : app_(std::make_unique<CLI::App>("Reads and writes chunked N-dimensional arrays.", "penstock")) {
  app_->footer(examples);
  app_->set_version_flag("--version", "penstock " PENSTOCK_VERSION, "Print the version and exit");
  app_->set_help_flag("--help,-h", "Print this help and exit");
  app_->require_subcommand(1);
}

command_line::~command_line() = default;

command command_line::add(const char* name, const char* what, bool opens) {
  command made(app_->add_subcommand(name, what), &as_json_, &chosen_, &values_);
  if (opens) made.storage(storage_);
  return made;
}

std::vector<verb_description> command_line::describe() const {
  std::vector<verb_description> out;
  for (const CLI::App* verb : app_->get_subcommands([](const CLI::App*) { return true; })) {
    verb_description made{verb->get_name(), verb->get_description(), {}};
    for (const CLI::Option* each : verb->get_options()) {
      if (each->get_positional()) continue;
      verb_description::option option{{}, each->get_description(), each->get_items_expected_max() > 0, {}};
      if (const auto found = values_.find(each); found != values_.end()) option.values = found->second;
      for (const std::string& name : each->get_snames()) option.names.push_back("-" + name);
      for (const std::string& name : each->get_lnames()) option.names.push_back("--" + name);
      made.options.push_back(std::move(option));
    }
    out.push_back(std::move(made));
  }
  return out;
}

std::string command_line::suggest(const std::string& failure) const {
  const std::size_t list = failure.find("not expected:");
  const std::size_t at = list == std::string::npos ? list : failure.find(" -", list);
  const auto chosen = app_->get_subcommands();
  if (at == std::string::npos || chosen.empty()) return "";
  const std::size_t begin = at + 1;
  const std::string typed = failure.substr(begin, failure.find_first_of(" =", begin) - begin);
  std::vector<std::string> known;
  for (const verb_description& verb : describe()) {
    if (verb.name != chosen.front()->get_name()) continue;
    for (const auto& option : verb.options) known.insert(known.end(), option.names.begin(), option.names.end());
  }
  return suggestion(typed, known);
}

command command_line::list(const char* name, const char* what, bool opens) {
  command made(app_->add_subcommand(name, what)->prefix_command(), &as_json_, &chosen_, &values_);
  if (opens) made.storage(storage_);
  return made;
}

int command_line::run(session& speak, int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      std::ostringstream text;
      app_->exit(e, text, text);
      return speak.print(text.str() + (text.str().ends_with('\n') ? "" : "\n"));
    }
    if (argc < 2) return speak.refuse("no command; see 'penstock --help'");
    const auto chosen = app_->get_subcommands();
    if (chosen.empty() && !std::string_view(argv[1]).starts_with('-')) {
      std::vector<std::string> verbs;
      for (const verb_description& each : describe()) verbs.push_back(each.name);
      return speak.refuse(
          fmt::format("there is no command '{}'{}; see 'penstock --help'", argv[1], suggestion(argv[1], verbs)));
    }
    const std::string help =
        chosen.empty() ? "penstock --help" : fmt::format("penstock {} --help", chosen.front()->get_name());
    return speak.refuse(fmt::format("{}{}; see '{}'", e.what(), suggest(e.what()), help));
  }
  speak.as_json = as_json_;
  speak.storage = storage_;
  if (auto storage = storage_.options(); !storage.ok()) return speak.refuse(storage.error().message());
  return chosen_(speak);
}

}  // namespace penstock::inline v0::cli
