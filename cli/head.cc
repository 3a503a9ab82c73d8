#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include <penstock/variable.h>
#include "base/counted.h"
#include "base/printable.h"
#include "csv.h"
#include "npy.h"
#include "run.h"
#include "values.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

constexpr std::size_t kMostItems = 1000;
constexpr std::uint64_t kMostPrintedBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostNpyBytes = std::uint64_t{64} << 20;

struct head_arguments {
  std::string uri, format = "text";
  std::size_t count = 10;
};

/// The header and the elements, for a pipe or a file.
int print_npy(const session& speak, const std::string& header, std::span<const std::byte> values) {
  auto done = write_all(STDOUT_FILENO, std::as_bytes(std::span(header)));
  if (done.ok()) done = write_all(STDOUT_FILENO, values);
  return done.ok() ? kOk : speak.fail(done.error());
}

int head(const session& speak, const head_arguments& given) {
  const bool is_npy = given.format == "npy";
  if (given.count == 0 || given.count > kMostItems)
    return speak.refuse(fmt::format("--count must be from 1 to {}, got {}", kMostItems, given.count));
  if (given.format != "text" && speak.as_json)
    return speak.refuse(fmt::format("--json and --format {} both write to stdout", given.format));
  if (is_npy && isatty(STDOUT_FILENO) == 1)
    return speak.refuse("stdout is a terminal; redirect it to a file or a pipe: penstock head ... > out.npy");
  const auto a = open_one(speak, given.uri);
  if (!a.ok()) return speak.fail(a.error());
  const std::size_t rank = a->shape().size();
  basic_selection which;
  for (std::size_t d = 0; d < rank; ++d) {
    if (d + 2 < rank && a->shape()[d] != 0) {
      which.items.emplace_back(std::int64_t{0});
    } else {
      slice range;
      range.stop = static_cast<std::int64_t>(std::min<std::uint64_t>(given.count, a->shape()[d]));
      which.items.emplace_back(range);
    }
  }
  const auto resolved = resolve(which, a->shape());
  if (!resolved.ok()) return speak.fail(resolved.error());
  const dtype type = a->type();
  const auto elements = element_count(resolved->shape);
  if (!elements.ok()) return speak.fail(elements.error());
  if (type.kind() == dtype_kind::object)
    return speak.fail(error(errc::unsupported, fmt::format("cannot print elements of {}", type.name())));
  std::string header;
  if (is_npy) {
    if (type.variable_length())
      return speak.fail(error(errc::unsupported, fmt::format("a .npy file cannot hold {}", type.name()))
                            .note("--format csv and text can"));
    auto made = npy_header(type, resolved->shape);
    if (!made.ok()) return speak.fail(made.error());
    header = std::move(*made);
  }
  if (*elements > (is_npy ? kMostNpyBytes : kMostPrintedBytes) / std::max<std::uint32_t>(1, type.item_bytes()))
    return speak.refuse(
        fmt::format("{} of {} are too many; give a smaller --count", counted(*elements, "element"), type.name()));
  std::vector<std::byte> values(*elements * type.item_bytes());
  read_options options;
  options.arena = std::make_shared<item_arena>();
  const auto view = tensor_view::contiguous(values.data(), type, resolved->shape);
  if (auto done = a->read(which, view, options); !done.ok()) return speak.fail(done.error());
  if (is_npy) return print_npy(speak, header, values);
  if (speak.as_json) {
    return speak.print_document(json::object_t{{"uri", a->uri()},
                                               {"selection", to_string(which)},
                                               {"dtype", short_type_text(type)},
                                               {"shape", to_json(resolved->shape)},
                                               {"values", block_json(type, resolved->shape, values.data())}});
  }
  if (given.format == "csv") return speak.print(csv_for(STDOUT_FILENO, csv_rows(type, resolved->shape, values.data())));
  std::string title = fmt::format("{} {}{}", a->uri(), type_text(type),
                                  rank == 0 ? "" : fmt::format(", {} of {}", to_string(which), to_string(a->shape())));
  return speak.print(painted(color::dim, printable(title)) + "\n" + block_text(type, resolved->shape, values.data()) +
                     "\n");
}

}  // namespace

void add_head(command_line& line) {
  auto given = std::make_shared<head_arguments>();
  command verb = line.add("head", "Print the first elements of an array");
  verb.required("URI", given->uri, "A path or a URI");
  verb.option("-n,--count", given->count, "Elements along each of the last two dimensions");
  verb.option("--format", given->format, {"text", "csv", "npy", "png"},
              "Brackets as in NumPy, CSV, the bytes of a .npy file, or a picture (by the Python package)");
  verb.json("Print one JSON document");
  verb.footer(
      "If an array has more than two dimensions, the leading ones are fixed at index 0.\n\n"
      "Examples:\n  penstock head data.zarr/t2m\n  penstock head data.zarr/lat -n 100 --format csv\n"
      "  penstock head data.zarr/t2m -n 500 --format png > corner.png");
  verb.runs([given](const session& speak) { return head(speak, *given); });
}

}  // namespace penstock::inline v0::cli
