#include "run.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <new>
#include <sstream>

#include "interrupt.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  penstock info data.zarr
  penstock plan data.zarr '0:10, ::2'
  penstock read data.zarr '..., -1' -o last.npy
  penstock check data.zarr
  penstock copy data.zarr new.zarr --chunks 64,64 --codec zstd
  penstock COMMAND --help

Exit status: 0 done, 1 failed, 2 wrong usage.)";

int run_verb(int argc, const char* const* argv) {
  session speak;
  for (int i = 1; i < argc; ++i) speak.as_json = speak.as_json || std::string_view(argv[i]) == "--json";
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const auto has = [&](std::string_view option) {
    return std::any_of(argv, argv + argc,
                       [&](std::string_view each) { return each.substr(0, each.find('=')) == option; });
  };
  if (verb == "demo" || verb == "bench" || (verb == "read" && has("--bounds"))) return run_in_python(speak, argc, argv);

  CLI::App program("Reads chunked N-dimensional arrays at the machine's speed.", "penstock");
  program.footer(kExamples);
  program.set_version_flag("--version", "penstock " PENSTOCK_VERSION, "Print the version and exit");
  program.set_help_flag("--help,-h", "Print this help and exit");
  program.require_subcommand(1);
  bool as_json = false;
  action chosen;
  add_info(program, as_json, chosen);
  add_plan(program, as_json, chosen);
  add_read(program, as_json, chosen);
  add_check(program, as_json, chosen);
  add_tree(program, as_json, chosen);
  add_copy(program, as_json, chosen);
  add_bench(program);
  add_demo(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      std::ostringstream text;
      program.exit(e, text, text);
      return speak.print(text.str() + (text.str().ends_with('\n') ? "" : "\n"));
    }
    if (argc < 2) return speak.refuse("no command; see 'penstock --help'");
    return speak.refuse(std::string(e.what()) + "; see 'penstock --help'");
  }
  speak.as_json = as_json;
  return chosen(speak);
}

}  // namespace

int run(int argc, const char* const* argv) {
  const signal_scope signals;
  try {
    return run_verb(argc, argv);
  } catch (const std::bad_alloc&) {
    return session{}.fail(error(errc::resource_exhausted, "out of memory"));
  } catch (const std::exception& e) {
    return session{}.fail(error(errc::internal, e.what()));
  }
}

}  // namespace penstock::inline v0::cli
