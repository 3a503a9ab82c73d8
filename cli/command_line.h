#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "session.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::inline v0::cli {

/// The action of a parsed command line; returns the exit status.
using action = std::function<int(const session&)>;

/// The values of the options that take no others.
using permitted_values = std::map<const CLI::Option*, std::vector<std::string>>;

/// One verb, its arguments and options. Parsing sets the values; the action owns them.
///
/// A name without a dash is an argument. `what` is the line of help.
class command {
 public:
  void required(const char* name, std::string& value, const char* what);
  void required(const char* name, std::string& value, std::vector<std::string> one_of, const char* what);
  void option(const char* name, std::string& value, const char* what);
  void option(const char* name, std::size_t& value, const char* what);  ///< at least 0; the help shows the default
  void option(const char* name, double& value, const char* what);       ///< at least 0
  void option(const char* name, std::vector<std::string>& values, int count, const char* what);
  void option(const char* name, std::string& value, std::vector<std::string> one_of, const char* what);
  void option(const char* name, int& value, std::vector<int> one_of, const char* what);
  void threads(unsigned& value, const char* what);
  void flag(const char* name, bool& value, const char* what, const char* excludes = nullptr);
  void json(const char* what);
  /// An option of a verb that other code parses: for completion only. `one_of`: the permitted values; empty: any.
  void listed(const char* name, const char* what, bool takes_value, std::vector<std::string> one_of = {});
  /// Text below the help.
  void footer(const char* text);
  void runs(action chosen);

 private:
  friend class command_line;
  command(CLI::App* app, bool* as_json, action* chosen, permitted_values* values)
      : app_(app), as_json_(as_json), chosen_(chosen), values_(values) {}
  void storage(storage_flags& flags);
  void permit(CLI::Option* option, std::vector<std::string> one_of);
  CLI::App* app_;
  bool* as_json_;
  action* chosen_;
  permitted_values* values_;
};

/// A verb for completion scripts.
struct verb_description {
  struct option {
    std::vector<std::string> names;  ///< with their dashes
    std::string what;
    bool takes_value = false;
    std::vector<std::string> values;  ///< permitted values; empty: any
  };
  std::string name, what;
  std::vector<option> options;
};

/// The program's command line. Only its source includes the parsing library, whose header takes seconds to compile.
class command_line {
 public:
  explicit command_line(const char* examples);
  ~command_line();
  /// A verb. Verbs that open URIs also have the options of remote storage.
  command add(const char* name, const char* what, bool opens = true);
  /// Only for the list of verbs and for completion: other code receives the whole line before it is parsed.
  command list(const char* name, const char* what, bool opens = false);
  std::vector<verb_description> describe() const;
  /// Parses the line and runs the chosen action; prints help and version, and refuses invalid options.
  int run(session& speak, int argc, const char* const* argv);

 private:
  std::string suggest(const std::string& failure) const;

  std::unique_ptr<CLI::App> app_;
  bool as_json_ = false;
  storage_flags storage_;
  action chosen_;
  permitted_values values_;
};

}  // namespace penstock::inline v0::cli
