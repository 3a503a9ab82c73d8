#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <system_error>

#include <penstock/copy.h>
#include <penstock/place.h>
#include "base/counted.h"
#include "base/printable.h"
#include "interrupt.h"
#include "progress.h"
#include "run.h"
#include "session.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

struct copy_arguments {
  std::string from, to, chunks, shards, codec, memory, scratch;
  int zarr_format = 0;
  unsigned threads = 0;
  bool overwrite = false, resume = false, durable = false, verify = false, dry_run = false;
  bool rechunks = false;  ///< the verb is `rechunk`
};

/// The folder of a local path, or the nearest one that exists; empty for URIs.
std::string folder_of(const std::string& target) {
  if (target.find("://") != std::string::npos || target.starts_with("zip:") || target.starts_with("file:")) return {};
  std::error_code failed;
  std::filesystem::path at = std::filesystem::absolute(target, failed).lexically_normal();
  do {
    at = at.parent_path();
  } while (!std::filesystem::is_directory(at, failed) && at.has_relative_path());
  return at.string();
}

/// `zstd`, or `zstd:5` with the level 5.
json codec_named(const std::string& text) {
  const std::size_t colon = text.find(':');
  std::int64_t level = 0;
  if (colon == std::string::npos) return text;
  const char* const end = text.data() + text.size();
  const auto [after, failed] = std::from_chars(text.data() + colon + 1, end, level);
  if (failed != std::errc() || after != end) return text;  // refused by name
  return json::object_t{{"name", text.substr(0, colon)}, {"configuration", json::object_t{{"level", level}}}};
}

/// A JSON list unchanged, a JSON object as a list of it; `zstd`, `zstd:5` or `delta,zstd` as a list; `none` as no
/// codec. Version 2 has an object of filters and compressor, which stays one object.
std::string codecs_json(const std::string& text) {
  if (text.empty() || text == "auto" || text.front() == '[') return text;
  if (text.front() == '{') {
    const json document = parsed(text);
    const bool is_codec = document.find("name") != nullptr || document.find("id") != nullptr;
    return is_codec ? "[" + text + "]" : text;
  }
  json::array_t names;
  for (std::size_t at = 0; text != "none" && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    names.push_back(codec_named(text.substr(at, end - at)));
    at = end + 1;
  }
  return json(std::move(names)).dump();
}

result<copy_options> options_of(const copy_arguments& given) {
  copy_options out;
  if (!given.chunks.empty()) {
    PENSTOCK_ASSIGN(out.chunk_rule, chunk_lengths::parse(given.chunks, "--chunks"));
  }
  out.auto_shards = given.shards == "auto";
  out.no_shards = given.shards == "none";
  if (!given.shards.empty() && !out.auto_shards && !out.no_shards) {
    PENSTOCK_ASSIGN(out.shard_rule, chunk_lengths::parse(given.shards, "--shards"));
  }
  out.codecs_json = codecs_json(given.codec);
  out.zarr_format = given.zarr_format;
  out.threads = given.threads;
  out.overwrite = given.overwrite;
  out.resume = given.resume;
  out.durable = given.durable;
  out.verify = given.verify;
  out.check_only = given.dry_run;
  out.decode_once = given.rechunks;
  if (!given.memory.empty()) {
    auto bytes = parse_bytes(given.memory);
    if (!bytes.ok() || *bytes == 0)
      return error(errc::invalid_argument, fmt::format("--memory takes a size, such as 2GiB: '{}'", given.memory));
    out.memory_bytes = *bytes;
  }
  out.scratch = given.scratch.empty() && given.rechunks ? folder_of(given.to) : given.scratch;
  return out;
}

/// \error unsupported  A group of a format that the library does not open.
result<copy_report> copy_opened(const opened& from, const std::string& to, const copy_options& options) {
  if (const auto* const g = std::get_if<std::shared_ptr<const opened_group>>(&from)) return (*g)->copy_to(to, options);
  PENSTOCK_ASSIGN(const place target, find_place(to));
  return copy(std::get<array>(from), target, options);
}

/// Writes a warning to stderr for each member that a copy omitted.
void warn_of(const std::vector<copy_report::omitted_member>& omitted) {
  std::string text;
  for (const auto& each : omitted)
    text += fmt::format("penstock: not copied: '{}' ({})\n", printable(each.path), printable(each.why));
  if (!text.empty()) static_cast<void>(write_all(2, std::as_bytes(std::span(text))));
}

std::string plan_text(const copy_report& report) {
  std::string text;
  for (const copy_step& each : report.steps)
    text += fmt::format("{}{}\n", each.path.empty() ? "" : printable(each.path) + ": ", printable(each.plan));
  return text;
}

int copy_all(const session& speak, const copy_arguments& given) {
  auto options = options_of(given);
  if (!options.ok()) return speak.refuse(options.error().message());
  if (const auto named = check_new_name(given.to); !named.ok()) return speak.refuse(named.error().message());
  auto found = open_node(speak, given.from, given.threads);
  if (!found.ok()) return speak.fail(found.error());
  if (given.rechunks && !given.dry_run && !speak.as_json) {
    copy_options check = *options;
    check.check_only = true;
    const auto planned = copy_opened(*found, given.to, check);
    if (!planned.ok()) return speak.fail(planned.error());
    const std::string text = plan_text(*planned);
    static_cast<void>(write_all(2, std::as_bytes(std::span(text))));
  }
  auto report = [&] {
    progress_line line(given.rechunks ? "rechunking" : "copying");
    options->progress = [&line](const copy_progress& now) { return line.update({now.done_bytes, now.total_bytes}); };
    const stoppable copying;
    return copy_opened(*found, given.to, *options);
  }();
  if (!report.ok()) return speak.fail(report.error());
  json::array_t steps, omitted;
  for (const auto& each : report->omitted) omitted.push_back(json::object_t{{"path", each.path}, {"why", each.why}});
  if (!speak.as_json) warn_of(report->omitted);
  for (const copy_step& each : report->steps)
    steps.push_back(json::object_t{{"path", each.path},
                                   {"plan", each.plan},
                                   {"passes", std::uint64_t{each.passes}},
                                   {"memory_bytes", each.memory_bytes},
                                   {"scratch_bytes", each.scratch_bytes}});
  if (given.dry_run) {
    if (speak.as_json)
      return speak.print_document(json::object_t{{"omitted", std::move(omitted)}, {"steps", std::move(steps)}});
    return speak.print(report->steps.empty() ? "nothing needs encoding\n" : plan_text(*report));
  }
  if (speak.as_json) {
    return speak.print_document(json::object_t{{"source", given.from},
                                               {"destination", given.to},
                                               {"groups", report->groups},
                                               {"arrays", report->arrays},
                                               {"objects_copied", report->objects_copied},
                                               {"objects_written", report->objects_written},
                                               {"objects_skipped", report->objects_skipped},
                                               {"bytes", report->bytes},
                                               {"omitted", std::move(omitted)},
                                               {"steps", std::move(steps)}});
  }
  std::string text = fmt::format("{}: {}", given.to, counted(report->arrays, "array"));
  if (report->groups != 0) text += " in " + counted(report->groups, "group");
  if (report->objects_copied != 0)
    text += fmt::format(", {} copied as they are", counted(report->objects_copied, "object"));
  if (report->objects_written != 0) text += fmt::format(", {} encoded", counted(report->objects_written, "object"));
  if (report->objects_skipped != 0) text += fmt::format(", {} already existed", report->objects_skipped);
  return speak.print(text + fmt::format(", {}\n", bytes_text(static_cast<double>(report->bytes))));
}

}  // namespace

namespace {

void add_options(command& verb, const std::shared_ptr<copy_arguments>& given) {
  verb.required("SRC", given->from, "A path or a URI");
  verb.required("DST", given->to, "A path or a URI");
  verb.option("--chunks", given->chunks,
              "The new chunks: lengths (64,64), lengths by dimension (time=1,lat=-1: a whole dimension is -1), or a "
              "size (8MiB); default: those of the source");
  verb.option("--shards", given->shards, "The new shards, as --chunks, 'auto' or 'none'");
  verb.option("--codec", given->codec,
              "The new codecs: names (zstd, zstd:5 with its level, or delta,zstd), JSON, 'auto' or 'none'");
  verb.option("--zarr-format", given->zarr_format, {2, 3}, "2 or 3; default: the source's");
  verb.option("--memory", given->memory, "For blocks of elements, such as 2GiB; default: half of the context's limit");
  verb.option("--scratch", given->scratch,
              given->rechunks
                  ? "A folder for data that exceeds the memory limit; default: the destination's"
                  : "A folder for data that exceeds the memory limit; without it, chunks are decoded several times");
  verb.flag("--dry-run", given->dry_run, "Check everything and print the plan; write nothing");
  verb.flag("--verify", given->verify, "Read the copy and the source, and compare");
  verb.flag("--overwrite", given->overwrite,
            "Replace an existing destination: the copy is written next to it and takes its place at the end, where the "
            "store can exchange them (files)");
  verb.flag("--resume", given->resume, "Continue an interrupted copy: existing objects are kept", "--overwrite");
  verb.flag("--durable", given->durable, "End only when all data is on the storage device");
  verb.threads(given->threads, "Threads for copying; default: one for each core");
  verb.json("Print one JSON document");
}

}  // namespace

void add_copy(command_line& line) {
  auto given = std::make_shared<copy_arguments>();
  command verb = line.add("copy", "Copy an array, or a group with all of its members");
  add_options(verb, given);
  verb.footer(
      "Arrays that keep chunks, shards, codecs and format are copied byte for byte; others are decoded and encoded\n"
      "again, a few objects at a time.\n\n"
      "Examples:\n"
      "  penstock copy data.zarr backup.zip\n"
      "  penstock copy data.zarr new.zarr --chunks 64,64 --shards auto --codec zstd\n"
      "  penstock copy era5.zarr series.zarr --chunks time=-1,lat=32,lon=32\n"
      "  penstock copy old.zarr new.zarr --zarr-format 3 --resume");
  verb.runs([given](const session& speak) { return copy_all(speak, *given); });
}

void add_rechunk(command_line& line) {
  auto given = std::make_shared<copy_arguments>();
  given->rechunks = true;
  command verb = line.add("rechunk", "Copy into other chunks, with each chunk decoded once");
  add_options(verb, given);
  verb.footer(
      "Each chunk of the source is decoded once and each object of the destination is written once. If the memory\n"
      "is too small for that, waiting elements are in a file of the scratch folder, as large as one array's "
      "elements.\n\n"
      "Examples:\n"
      "  penstock rechunk maps.zarr series.zarr --chunks time=-1,lat=32,lon=32 --memory 2GiB --dry-run\n"
      "  penstock rechunk maps.zarr series.zarr --chunks time=-1,lat=32,lon=32 --codec zstd:5 --verify");
  verb.runs([given](const session& speak) { return copy_all(speak, *given); });
}

}  // namespace penstock::inline v0::cli
