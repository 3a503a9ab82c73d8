#include <CLI/CLI.hpp>

#include "verbs.h"

namespace penstock::inline v0::cli {

// Only for the list of commands: `run` hands the whole line to Python, where the scenarios and the peers are.
void add_bench(CLI::App& program) {
  program.add_subcommand("bench", "Time scenarios against this machine's ceiling (needs the Python package)")
      ->prefix_command();
}

}  // namespace penstock::inline v0::cli
