#include "command_line.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <sstream>
#include <string_view>
#include <utility>

namespace penstock::inline v0::cli {

void command::required(const char* name, std::string& value, const char* what) {
  app_->add_option(name, value, what)->required();
}

void command::option(const char* name, std::string& value, const char* what) { app_->add_option(name, value, what); }

void command::option(const char* name, std::size_t& value, const char* what) {
  app_->add_option(name, value, what)->capture_default_str();
}

void command::option(const char* name, std::vector<std::string>& values, int count, const char* what) {
  app_->add_option(name, values, what)->expected(count);
}

void command::option(const char* name, std::string& value, std::vector<std::string> one_of, const char* what) {
  app_->add_option(name, value, what)->check(CLI::IsMember(std::move(one_of)));
}

void command::option(const char* name, int& value, std::vector<int> one_of, const char* what) {
  app_->add_option(name, value, what)->check(CLI::IsMember(std::move(one_of)));
}

void command::threads(unsigned& value, const char* what) {
  app_->add_option("--threads", value, what)->check(CLI::Range(1, 4096).description(""));
}

void command::flag(const char* name, bool& value, const char* what, const char* excludes) {
  CLI::Option* added = app_->add_flag(name, value, what);
  if (excludes != nullptr) added->excludes(app_->get_option(excludes));
}

void command::json(const char* what) { app_->add_flag("--json", *as_json_, what); }

void command::footer(const char* text) { app_->footer(text); }

void command::runs(action chosen) {
  app_->callback([to = chosen_, chosen = std::move(chosen)] { *to = chosen; });
}

command_line::command_line(const char* examples)
    : app_(std::make_unique<CLI::App>("Reads chunked N-dimensional arrays at the machine's speed.", "penstock")) {
  app_->footer(examples);
  app_->set_version_flag("--version", "penstock " PENSTOCK_VERSION, "Print the version and exit");
  app_->set_help_flag("--help,-h", "Print this help and exit");
  app_->require_subcommand(1);
}

command_line::~command_line() = default;

command command_line::add(const char* name, const char* what) {
  return command(app_->add_subcommand(name, what), &as_json_, &chosen_);
}

void command_line::list(const char* name, const char* what) { app_->add_subcommand(name, what)->prefix_command(); }

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
    if (app_->get_subcommands().empty() && !std::string_view(argv[1]).starts_with('-'))
      return speak.refuse(fmt::format("there is no command '{}'; see 'penstock --help'", argv[1]));
    return speak.refuse(std::string(e.what()) + "; see 'penstock --help'");
  }
  speak.as_json = as_json_;
  return chosen_(speak);
}

}  // namespace penstock::inline v0::cli
