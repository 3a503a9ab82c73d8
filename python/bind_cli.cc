#include <string>
#include <vector>

#include "bind.h"
#include "cli/run.h"

namespace penstock::inline v0::python {
namespace {

int run_cli(nb::list arguments) {
  std::vector<std::string> texts;
  for (const nb::handle argument : arguments) {
    const nb::bytes bytes = nb::cast<nb::bytes>(argument);
    texts.emplace_back(bytes.c_str(), bytes.size());
  }
  std::vector<const char*> argv;
  for (const std::string& text : texts) argv.push_back(text.c_str());
  argv.push_back(nullptr);
  const without_gil released;
  return cli::run(static_cast<int>(texts.size()), argv.data());
}

}  // namespace

void bind_cli(nb::module_& m) {
  m.def("cli_main", run_cli, nb::arg("argv"),
        "Run the command line program with these arguments (bytes; the first is its name); returns its exit status.");
}

}  // namespace penstock::inline v0::python
