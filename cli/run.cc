#include "run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interrupt.h"
#include "read_arguments.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  penstock info data.zarr
  penstock plan data.zarr '0:10, ::2'
  penstock read data.zarr '..., -1' -o last.npy
  penstock check data.zarr
  penstock diff data.zarr copy.zarr
  penstock copy data.zarr new.zarr --chunks 64,64 --codec zstd
  penstock rechunk maps.zarr series.zarr --chunks time=-1,lat=32,lon=32
  penstock COMMAND --help

Exit status: 0 done, 1 failed, 2 wrong usage.)";

/// Whether `read` or `head` writes a PNG, which the Python package does; like `takes` in `penstock/cli/read.py`.
bool makes_picture(std::span<const char* const> arguments) {
  bool to_picture = false;
  std::string_view before;
  const auto asks_for_help = [](std::string_view each) { return each == "--help" || each == "-h"; };
  if (std::any_of(arguments.begin(), arguments.end(), asks_for_help)) return false;
  for (const std::string_view each : arguments) {
    if (each == "--format=png" || (before == "--format" && each == "png")) return true;
    if (each.substr(0, each.find('=')) == "--format") to_picture = false;
    if (before == "-o" || before == "--output" || each.starts_with("--output=")) {
      std::string lower(each);
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
      to_picture = to_picture || lower.ends_with(".png");
    }
    before = each;
  }
  return to_picture;
}

/// The verbs that are written in Python, with their options: `penstock/cli/convert.py` and others have the same ones.
void list_verbs_of_python(command_line& line, bool with_bench) {
  command doctor =
      line.list("doctor", "Show versions, limits, devices and speeds of this machine (needs the Python package)");
  doctor.listed("--json", "Print one JSON document", false);
  command convert =
      line.list("convert", "Write an array or a group in another format (needs the Python package)", true);
  convert.listed("--chunks", "Of Zarr and HDF5: lengths, or a size", true);
  convert.listed("--shards", "Of Zarr: as --chunks, 'auto' or 'none'; of many files: their number", true);
  convert.listed("--rows", "Of many files: rows of each", true);
  convert.listed("--codec", "Of Zarr: names, or JSON", true);
  convert.listed("--zarr-format", "Of Zarr", true, {"2", "3"});
  convert.listed("--memory", "Of Zarr and .npy: for blocks of elements, such as 2GiB", true);
  convert.listed("--scratch", "Of Zarr: a folder for data that exceeds the memory limit", true);
  convert.listed("--dry-run", "Of Zarr: check everything and print the plan; write nothing", false);
  convert.listed("--resume", "Of Zarr: continue an interrupted copy", false);
  convert.listed("--overwrite", "Replace the destination", false);
  convert.listed("--consolidate", "Of Zarr: also store a group's metadata at its root", false);
  convert.listed("--verify", "Read the copy and the source, and compare", false);
  convert.listed("--threads", "Threads for copying; default: one for each core", true);
  convert.listed("--json", "Print one JSON document", false);
  if (with_bench) line.list("bench", "Time scenarios against this machine's ceiling (needs a source checkout)");
  command demo = line.list("demo", "Write an array, read it, show where the time goes (needs the Python package)");
  demo.listed("--output", "The folder for arrays and pictures", true);
  demo.listed("--threads", "For each reader; default: one for each core", true);
}

/// Closed standard descriptors become ones that refuse every access: otherwise files and sockets would get their
/// numbers, and the output would be written to those.
void occupy_standard_descriptors() {
  for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(each, F_GETFD) == -1 && errno == EBADF)
      (void)::open("/dev/null", each == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // the lowest free number
  }
}

/// Before the arguments are parsed: errors have the form that they select.
session session_of(int argc, const char* const* argv) {
  session out;
  out.argc = argc;
  out.argv = argv;
  for (int i = 1; i < argc; ++i) out.as_json = out.as_json || std::string_view(argv[i]) == "--json";
  return out;
}

int run_verb(int argc, const char* const* argv, const opener& others, bool with_bench, const system_namer& namer) {
  session speak = session_of(argc, argv);
  if (others) speak.others = &others;
  if (namer) speak.namer = &namer;
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "demo" || verb == "convert" || verb == "doctor" || (verb == "bench" && with_bench) ||
      ((verb == "read" || verb == "head") && makes_picture(std::span(argv, argv + argc)))) {
    // Within Python these verbs were handled before: Python must not start itself repeatedly.
    if (others) return speak.refuse(fmt::format("'penstock {}' does not support these arguments", verb));
    return run_in_python(speak, argc, argv);
  }

  command_line line(kExamples);
  add_info(line);
  add_ls(line);
  add_head(line);
  add_stats(line);
  add_plan(line);
  add_read(line);
  add_check(line);
  add_diff(line);
  add_tree(line);
  add_copy(line);
  add_rechunk(line);
  add_shard(line);
  add_completion(line);
  list_verbs_of_python(line, with_bench);
  const std::vector<std::string> words = join_bounds(argc, argv);
  std::vector<const char*> joined;
  for (const std::string& each : words) joined.push_back(each.c_str());
  return line.run(speak, static_cast<int>(joined.size()), joined.data());
}

/// Reports what no verb has handled.
int end_with(const error& failure, int argc, const char* const* argv) {
  const int status = session_of(argc, argv).fail(failure);
  const bool compares = argc > 1 && std::string_view(argv[1]) == "diff";  // its status 1 is that of a difference
  return status == kFailed && compares ? kUsage : status;
}

}  // namespace

int run(int argc, const char* const* argv, const opener& others, bool with_bench, const system_namer& namer) {
  occupy_standard_descriptors();
  const signal_scope signals;
  try {
    return run_verb(argc, argv, others, with_bench, namer);
  } catch (const std::bad_alloc&) {
    return end_with(error(errc::resource_exhausted, "out of memory"), argc, argv);
  } catch (const std::exception& e) {
    return end_with(error(errc::internal, e.what()), argc, argv);
  }
}

}  // namespace penstock::inline v0::cli
