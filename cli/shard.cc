#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include <penstock/shard_writer.h>
#include "base/counted.h"
#include "interrupt.h"
#include "progress.h"
#include "run.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

struct shard_arguments {
  std::string from, pattern, manifest{kShardManifest};
  std::size_t rows = 0, shards = 0;
  unsigned threads = 0;
};

int save(const session& speak, const shard_arguments& given) {
  if ((given.rows == 0) == (given.shards == 0))
    return speak.refuse("give either --rows of each file or the number of --shards");
  save_shards_options options;
  if (given.rows != 0) options.rows = given.rows;
  if (given.shards != 0) options.shards = given.shards;
  options.manifest = given.manifest == "none" ? std::nullopt : std::optional(given.manifest);
  auto found = open_one(speak, given.from, given.threads);
  if (!found.ok()) return speak.fail(found.error());
  const auto paths = [&] {
    const stoppable saving;
    progress_line line("writing");
    options.progress = line.callback();
    return save_shards(*found, given.pattern, options);
  }();
  if (!paths.ok()) return speak.fail(paths.error());
  if (speak.as_json) {
    json::array_t names(paths->begin(), paths->end());
    return speak.print_document(json::object_t{{"source", given.from}, {"files", std::move(names)}});
  }
  return speak.print(fmt::format("{}, the last '{}'\n", counted(paths->size(), "file"), paths->back()));
}

}  // namespace

void add_shard(command_line& line) {
  auto given = std::make_shared<shard_arguments>();
  command verb = line.add("shard", "Write an array to several files");
  verb.required("SRC", given->from, "A path or a URI");
  verb.required("PATTERN", given->pattern, "Names with {} for the number, which may have a width: run/part_{:05d}.npy");
  verb.option("--rows", given->rows, "Rows of each file but the last");
  verb.option("--shards", given->shards, "Or the number of files, with lengths as equal as possible");
  verb.option("--manifest", given->manifest, "The name of the manifest in the folder of the files, or 'none'");
  verb.threads(given->threads, "Threads for reading; default: one for each core");
  verb.json("Print one JSON document");
  verb.footer(
      "Divides the array along its first dimension. The suffix is .npy, .raw, .bin, .npz, .zarr or .tif.\n"
      "Files of the same pattern with higher numbers, from an earlier run, are removed at the end.\n\n"
      "Examples:\n"
      "  penstock shard data.zarr 'run/part_{:05d}.npy' --rows 100000\n"
      "  penstock shard data.h5/speed 'raw/part_{}.raw' --shards 8 --manifest none");
  verb.runs([given](const session& speak) { return save(speak, *given); });
}

}  // namespace penstock::inline v0::cli
