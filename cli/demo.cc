#include <CLI/CLI.hpp>

#include "verbs.h"

namespace penstock::inline v0::cli {

// Only for the list of commands: `run` hands the whole line to Python, whose zarr-python writes the demo's array.
void add_demo(CLI::App& program) {
  program.add_subcommand("demo", "Write an array, read it, show where the time goes (needs the Python package)")
      ->prefix_command();
}

}  // namespace penstock::inline v0::cli
