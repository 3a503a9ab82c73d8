#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include <penstock/variable.h>
#include "base/counted.h"
#include "csv.h"
#include "interrupt.h"
#include "npy.h"
#include "output_file.h"
#include "progress.h"
#include "read_arguments.h"
#include "run.h"
#include "slabs.h"
#include "values.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

constexpr std::uint64_t kMostPrinted = 1000;
constexpr std::uint64_t kMostPrintedBytes = std::uint64_t{1} << 20;  // r* items may have any size
constexpr std::uint64_t kReadBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kCsvBytes = std::uint64_t{8} << 20;  // bytes of elements that become text at a time
constexpr std::uint64_t kMostCsv = std::uint64_t{1} << 30;

/// A read with its computed sizes.
struct request_to_read {
  array from;
  basic_selection which;
  resolved_basic resolved;
  std::uint64_t elements = 0, bytes = 0;
  std::string header;  ///< header of the output: of a .npy file, or empty
  read_options options;
};

result<request_to_read> prepare(const session& speak, const read_arguments& given, basic_selection which) {
  PENSTOCK_ASSIGN(array from, open_one(speak, given.uri, given.threads));
  PENSTOCK_ASSIGN(resolved_basic resolved, resolve(which, from.shape()));
  request_to_read work{std::move(from), std::move(which), std::move(resolved), 0, 0, "", {}};
  PENSTOCK_ASSIGN(work.elements, element_count(work.resolved.shape));
  const std::uint64_t item_bytes = work.from.type().item_bytes();
  if (item_bytes == 0) {
    return error(errc::unsupported, fmt::format("cannot write out elements of {}", work.from.type().name()));
  }
  constexpr std::uint64_t kMostAddressed = std::uint64_t{1} << 62;
  if (work.elements > kMostAddressed / item_bytes) {
    return error(errc::resource_exhausted, fmt::format("{} of {} are more than a file can hold",
                                                       counted(work.elements, "element"), work.from.type().name()));
  }
  work.bytes = work.elements * item_bytes;
  work.options.threads = given.threads;
  if (work.from.type().kind() == dtype_kind::object)
    return error(errc::unsupported, fmt::format("cannot write out elements of {}", work.from.type().name()));
  if (work.from.type().variable_length()) {
    work.options.arena = std::make_shared<item_arena>();
    if (!given.output.empty() && output_format(given) != "csv")
      return error(errc::unsupported, fmt::format("{} elements have no fixed size, which only --format csv can hold",
                                                  work.from.type().name()));
  }
  if (output_format(given) == "csv" && work.resolved.shape.size() > 2) {
    return error(errc::invalid_argument,
                 fmt::format("CSV has two dimensions, the selection {} of shape {} has {}", to_string(work.which),
                             to_string(work.resolved.shape), work.resolved.shape.size()))
        .note("select one element along the others, such as '0, :, :'");
  }
  if (!given.output.empty() && output_format(given) == "npy") {
    PENSTOCK_ASSIGN(work.header, npy_header(work.from.type(), work.resolved.shape));
  }
  return work;
}

/// Reads and shows the values.
int print_values(const session& speak, request_to_read& work) {
  if (work.elements > kMostPrinted || work.bytes > kMostPrintedBytes) {
    return speak.refuse(fmt::format("{} are too many to print; write them to a file with -o out.npy, or select fewer",
                                    counted(work.elements, "element")));
  }
  const dtype type = work.from.type();
  std::vector<std::byte> values(work.bytes);
  const auto view = tensor_view::contiguous(values.data(), type, work.resolved.shape);
  if (auto done = work.from.read(work.which, view, work.options); !done.ok()) return speak.fail(done.error());
  if (!speak.as_json) return speak.print(block_text(type, work.resolved.shape, values.data()) + "\n");
  return speak.print_document(json::object_t{{"uri", work.from.uri()},
                                             {"selection", to_string(work.which)},
                                             {"dtype", short_type_text(type)},
                                             {"shape", to_json(work.resolved.shape)},
                                             {"values", block_json(type, work.resolved.shape, values.data())}});
}

/// The rows of a CSV file, a slab of elements at a time; `take` receives the text of each.
template <class Take>
result<> make_csv(request_to_read& work, Take&& take) {
  const stoppable reading;
  progress_line line("reading");
  const dtype type = work.from.type();
  // A slab of rows has the axes of the result: those that an int selects are dropped.
  std::uint64_t done = 0;
  const std::uint64_t columns = work.resolved.shape.size() < 2 ? 1 : work.resolved.shape[1];
  slab_cutter slabs(work.resolved, work.from.chunks(), type.item_bytes(), kCsvBytes);
  while (const std::optional<slab> piece = slabs.next()) {
    PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(piece->shape));
    std::vector<std::byte> memory(elements * type.item_bytes());
    read_options options = work.options;
    if (options.arena) options.arena = std::make_shared<item_arena>();
    options.progress = [&](const read_progress&) { return line.update({done, work.bytes}); };
    PENSTOCK_TRY(work.from.read(piece->which, tensor_view::contiguous(memory.data(), type, piece->shape), options));
    done += memory.size();
    if (elements % columns != 0 && columns > 1) {  // part of a row: only if a single row is divided
      return error(errc::resource_exhausted,
                   fmt::format("one row of {} is too long for CSV", counted(columns, "element")));
    }
    PENSTOCK_TRY(take(csv_rows(
        type, columns > 1 || work.resolved.shape.size() == 2 ? extents{elements / columns, columns} : extents{elements},
        memory.data())));
  }
  return {};
}

/// The file appears when its text is complete: the size of a CSV file cannot be known before.
result<> csv_to_file(const read_arguments& given, request_to_read& work) {
  std::string text;
  PENSTOCK_TRY(make_csv(work, [&](const std::string& rows) -> result<> {
    if (rows.size() > kMostCsv - text.size())
      return error(errc::resource_exhausted, fmt::format("more than {} of CSV", bytes_text(kMostCsv)))
          .note("select fewer elements, or write it to a pipe with -o -");
    text += rows;
    return {};
  }));
  PENSTOCK_ASSIGN(output_file file, output_file::create(given.output, text.size(), given.force));
  std::memcpy(file.bytes().data(), text.data(), text.size());
  return file.commit();
}

/// Reads directly into the file's memory.
result<> read_to_file(const read_arguments& given, request_to_read& work) {
  if (output_format(given) == "csv") return csv_to_file(given, work);
  PENSTOCK_ASSIGN(output_file file, output_file::create(given.output, work.header.size() + work.bytes, given.force));
  if (!work.header.empty()) std::memcpy(file.bytes().data(), work.header.data(), work.header.size());
  {
    const stoppable reading;
    progress_line line("reading");
    work.options.progress = line.callback();
    const auto view =
        tensor_view::contiguous(file.bytes().data() + work.header.size(), work.from.type(), work.resolved.shape);
    PENSTOCK_TRY(work.from.read(work.which, view, work.options));
    if (caught_signal() != 0) return error(errc::cancelled, "interrupted");
  }
  return file.commit();
}

/// Reads slab after slab into one buffer and writes each: for pipes, which cannot be filled in any order.
result<> read_to_stream(int descriptor, bool as_csv, request_to_read& work) {
  if (as_csv)
    return make_csv(work, [&](std::string rows) {
      rows = csv_for(descriptor, std::move(rows));
      return write_all(descriptor, std::as_bytes(std::span(rows)));
    });
  const stoppable reading;
  progress_line line("reading");
  PENSTOCK_TRY(write_all(descriptor, std::as_bytes(std::span(work.header))));
  const dtype type = work.from.type();
  std::unique_ptr<std::byte[]> memory;
  std::uint64_t capacity = 0, written = 0;
  slab_cutter slabs(work.resolved, work.from.chunks(), type.item_bytes(), kReadBytes);
  while (const std::optional<slab> piece = slabs.next()) {
    PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(piece->shape));
    const std::uint64_t bytes = elements * type.item_bytes();
    if (bytes > capacity) {
      memory.reset();
      memory.reset(new (std::nothrow) std::byte[bytes]);
      if (memory == nullptr) {
        return error(errc::resource_exhausted,
                     fmt::format("no memory for one layer of chunks, {}", counted(bytes, "byte")));
      }
      capacity = bytes;
    }
    work.options.progress = [&](const read_progress& now) {
      const double part =
          now.total_bytes == 0 ? 1 : static_cast<double>(now.done_bytes) / static_cast<double>(now.total_bytes);
      return line.update({written + static_cast<std::uint64_t>(part * static_cast<double>(bytes)), work.bytes});
    };
    const auto view = tensor_view::contiguous(memory.get(), type, piece->shape);
    PENSTOCK_TRY(work.from.read(piece->which, view, work.options));
    PENSTOCK_TRY(write_all(descriptor, {memory.get(), bytes}));
    written += bytes;
  }
  return {};
}

result<> write_out(const read_arguments& given, request_to_read& work) {
  if (given.output == "-") return read_to_stream(STDOUT_FILENO, output_format(given) == "csv", work);
  if (!is_stream(given.output)) return read_to_file(given, work);
  return write_to_stream(
      given.output, [&](int descriptor) { return read_to_stream(descriptor, output_format(given) == "csv", work); });
}

int read(const session& speak, const read_arguments& given) {
  if (is_window(given)) return read_window(speak, given);
  auto which = parse_selection(given.selection);
  if (!which.ok()) return speak.refuse(which.error().message());
  if (given.output == "-" && speak.as_json) return speak.refuse("--json and -o - both write to stdout");
  if (given.format == "csv" && given.output.empty() && speak.as_json)
    return speak.refuse("--json and --format csv both write to stdout");
  if (given.output == "-" && output_format(given) != "csv" && isatty(STDOUT_FILENO) == 1) {
    return speak.refuse("stdout is a terminal; name a file with -o, or redirect it to a pipe");
  }
  if (!given.output.empty() && output_format(given).empty()) {
    return speak.refuse(
        fmt::format("cannot tell the format from the name '{}'; end it in .npy, .csv or .bin (of an image also .tif or "
                    ".png), or give --format{}",
                    given.output, given.output.ends_with(".zarr") ? "; 'penstock copy' writes Zarr" : ""));
  }
  const auto begin = std::chrono::steady_clock::now();
  auto work = prepare(speak, given, std::move(which).value());
  if (!work.ok()) return speak.fail(work.error());
  if (given.output.empty() && given.format == "csv") {
    auto printed = read_to_stream(STDOUT_FILENO, true, *work);
    return printed.ok() ? kOk : speak.fail(printed.error());
  }
  if (given.output.empty()) return print_values(speak, *work);

  if (auto done = write_out(given, *work); !done.ok()) return speak.fail(done.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (speak.as_json) {
    return speak.print_document(json::object_t{{"uri", work->from.uri()},
                                               {"selection", to_string(work->which)},
                                               {"dtype", short_type_text(work->from.type())},
                                               {"shape", to_json(work->resolved.shape)},
                                               {"output", given.output},
                                               {"output_bytes", work->header.size() + work->bytes},
                                               {"seconds", seconds}});
  }
  if (isatty(STDERR_FILENO) == 1) {
    const std::string text =
        fmt::format("{} {} {}, {} in {:.2f} s\n", given.output, short_type_text(work->from.type()),
                    to_string(work->resolved.shape), bytes_text(static_cast<double>(work->bytes)), seconds);
    (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)));
  }
  return kOk;
}

}  // namespace

void add_read(command_line& line) {
  auto given = std::make_shared<read_arguments>();
  command verb = line.add("read", "Write a selection to a file, or print a small one");
  verb.required("URI", given->uri, "A path or a URI");
  verb.option("SELECTION", given->selection, "As in Python: '0:10, ::2', '..., -1'; default: the whole array");
  verb.option(
      "-o,--output", given->output,
      "out.npy, out.csv (at most two dimensions), out.bin (bare values, C order, this machine's byte order), or "
      "- for stdout; of an image out.tif, or out.png (by the Python package)");
  verb.option("--format", given->format, {"npy", "csv", "bin", "png"},
              "If the name does not determine it; csv without -o is printed");
  verb.threads(given->threads, "Threads for decoding; default: one for each core");
  verb.flag("--force", given->force, "Replace the file if it exists");
  verb.option("--bounds", given->bounds, "Of an image: left bottom right top, in the units of its CRS");
  verb.option("--shape", given->shape, 2, "Of an image: rows and columns of the result");
  verb.option("--resampling", given->resampling, {"nearest", "average", "bilinear"},
              "Of an image: how its pixels become those of the result");
  verb.json("Print one JSON document");
  verb.footer(
      "The file appears complete or not at all.\n\n"
      "Examples:\n  penstock read data.zarr '0, :5'\n  penstock read data.zarr '::2' -o even.npy --force\n"
      "  penstock read data.zarr -o - --format bin | md5sum\n"
      "  penstock read scene.tif --bounds 500000 4585000 510000 4595000 --shape 512 512 -o part.png");
  verb.runs([given](const session& speak) { return read(speak, *given); });
}

}  // namespace penstock::inline v0::cli
