#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "base/counted.h"
#include "base/printable.h"
#include "interrupt.h"
#include "progress.h"
#include "run.h"
#include "slabs.h"
#include "values.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

constexpr std::uint64_t kMeasuredBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kBlock = 4096;  // elements whose squares are summed around their own mean

struct stats_arguments {
  std::string uri, selection, skip;
  unsigned threads = 0;
};

/// Counts, extremes, mean and deviation of a sequence of elements.
///
/// Blocks are summed around their own mean and joined, so that the deviation of a large offset keeps its digits.
/// Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983.
template <class T>
class summary {
 public:
  explicit summary(std::optional<double> skip) : skip_(skip) {}

  void add(const T* values, std::uint64_t count) {
    for (std::uint64_t at = 0; at < count; at += kBlock) add_block(values + at, std::min(kBlock, count - at));
  }

  std::uint64_t elements() const { return count_; }
  std::uint64_t missing() const { return missing_; }
  std::uint64_t skipped() const { return skipped_; }
  const T* least() const { return &least_; }
  const T* most() const { return &most_; }
  double mean() const { return mean_; }
  double deviation() const { return count_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(count_)); }

 private:
  void add_block(const T* values, std::uint64_t count) {
    std::uint64_t taken = 0;
    double sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const T value = values[i];
      if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(value)) {
          ++missing_;
          continue;
        }
      }
      if (is_skipped(value)) {
        ++skipped_;
        continue;
      }
      if (count_ + taken == 0) least_ = most_ = value;
      if (value < least_) least_ = value;
      if (value > most_) most_ = value;
      sum += static_cast<double>(value);
      ++taken;
    }
    if (taken == 0) return;
    const auto here = static_cast<double>(taken), before = static_cast<double>(count_);
    const double mean = sum / here;
    double squares = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(values[i]);
      if (!std::isnan(value) && !is_skipped(values[i])) squares += (value - mean) * (value - mean);
    }
    const double apart = mean - mean_;
    squares_ += squares + apart * apart * before * here / (before + here);
    mean_ += apart * here / (before + here);
    count_ += taken;
  }

  bool is_skipped(T value) const { return skip_ && static_cast<double>(value) == *skip_; }

  std::optional<double> skip_;
  std::uint64_t count_ = 0, missing_ = 0, skipped_ = 0;
  T least_ = {}, most_ = {};
  double mean_ = 0, squares_ = 0;
};

/// Reads the selection slab by slab, as elements of `as`, and accumulates them.
template <class T>
int report(const session& speak, const stats_arguments& given, const array& a, const resolved_basic& all, dtype as,
           std::optional<double> skip) {
  const auto total = element_count(all.shape);
  if (!total.ok()) return speak.fail(total.error());
  summary<T> found(skip);
  {
    const stoppable reading;
    progress_line line("reading");
    std::unique_ptr<std::byte[]> memory;
    std::uint64_t capacity = 0, done = 0;
    slab_cutter slabs(all, a.chunks(), sizeof(T), kMeasuredBytes);
    while (const std::optional<slab> piece = slabs.next()) {
      const auto elements = element_count(piece->shape);
      if (!elements.ok()) return speak.fail(elements.error());
      const std::uint64_t bytes = *elements * sizeof(T);
      if (bytes > capacity) {
        memory.reset();
        memory.reset(new (std::nothrow) std::byte[bytes]);
        if (memory == nullptr)
          return speak.fail(error(errc::resource_exhausted,
                                  fmt::format("no memory for one layer of chunks, {}", counted(bytes, "byte"))));
        capacity = bytes;
      }
      read_options options;
      options.threads = given.threads;
      options.type = as;
      options.progress = [&](const read_progress& now) {
        const double part =
            now.total_bytes == 0 ? 1 : static_cast<double>(now.done_bytes) / static_cast<double>(now.total_bytes);
        return line.update({done + static_cast<std::uint64_t>(part * static_cast<double>(bytes)), *total * sizeof(T)});
      };
      auto outcome = a.read(piece->which, tensor_view::contiguous(memory.get(), as, piece->shape), options);
      if (!outcome.ok()) return speak.fail(outcome.error());
      found.add(reinterpret_cast<const T*>(memory.get()), *elements);
      done += bytes;
      if (caught_signal() != 0) return speak.fail(error(errc::cancelled, "interrupted"));
    }
  }
  // Times are counts of a unit: their extremes are shown as such.
  const bool none = found.elements() == 0;
  const auto least = reinterpret_cast<const std::byte*>(found.least());
  const auto most = reinterpret_cast<const std::byte*>(found.most());
  if (speak.as_json) {
    json::object_t document{{"uri", a.uri()},
                            {"dtype", short_type_text(a.type())},
                            {"shape", to_json(all.shape)},
                            {"elements", *total},
                            {"counted", found.elements()},
                            {"nan", found.missing()},
                            {"skipped", found.skipped()},
                            {"min", none ? json() : item_json(as, least)},
                            {"max", none ? json() : item_json(as, most)},
                            {"mean", none || !std::isfinite(found.mean()) ? json() : json(found.mean())},
                            {"std", none || !std::isfinite(found.deviation()) ? json() : json(found.deviation())}};
    return speak.print_document(std::move(document));
  }
  std::string text = fmt::format("{:<9} {}\n{:<9} {} {}, {}\n", "array", printable(a.uri()), "selection",
                                 short_type_text(a.type()), to_string(all.shape), counted(*total, "element"));
  if (found.missing() != 0) text += fmt::format("{:<9} {}\n", "nan", found.missing());
  if (skip) text += fmt::format("{:<9} {}\n", "skipped", found.skipped());
  if (none) return speak.print(text + "no elements to sum up\n");
  text += fmt::format("{:<9} {}\n{:<9} {}\n", "min", item_text(as, least), "max", item_text(as, most));
  return speak.print(text +
                     fmt::format("{:<9} {:.9g}\n{:<9} {:.9g}\n", "mean", found.mean(), "std", found.deviation()));
}

int stats(const session& speak, const stats_arguments& given) {
  const auto which = parse_selection(given.selection);
  if (!which.ok()) return speak.refuse(which.error().message());
  std::optional<double> skip;
  if (!given.skip.empty()) {
    const char* const end = given.skip.data() + given.skip.size();
    double value = 0;
    const auto [after, failed] = std::from_chars(given.skip.data(), end, value);
    if (failed != std::errc() || after != end)
      return speak.refuse(fmt::format("--skip takes a number, got '{}'", given.skip));
    skip = value;
  }
  const auto a = open_one(speak, given.uri, given.threads);
  if (!a.ok()) return speak.fail(a.error());
  const auto all = resolve(*which, a->shape());
  if (!all.ok()) return speak.fail(all.error());
  const dtype type = a->type();
  const auto run = [&]<class T>(T /*of*/, dtype as) { return report<T>(speak, given, *a, *all, as, skip); };
  const std::uint32_t bytes = type.item_bytes();
  switch (type.kind()) {
    case dtype_kind::boolean:
    case dtype_kind::unsigned_integer:
      if (bytes == 1) return run(std::uint8_t{}, type);
      if (bytes == 2) return run(std::uint16_t{}, type);
      return bytes == 4 ? run(std::uint32_t{}, type) : run(std::uint64_t{}, type);
    case dtype_kind::signed_integer:
      if (bytes == 1) return run(std::int8_t{}, type);
      if (bytes == 2) return run(std::int16_t{}, type);
      return bytes == 4 ? run(std::int32_t{}, type) : run(std::int64_t{}, type);
    case dtype_kind::floating:
    case dtype_kind::brain_float:
      return bytes == 8 ? run(double{}, type) : run(float{}, dtype(dtype_kind::floating, 32));
    default:
      return speak.fail(error(errc::unsupported, fmt::format("elements of {} have no minimum and mean", type.name()))
                            .note(fmt::format("array '{}'", a->uri())));
  }
}

}  // namespace

void add_stats(command_line& line) {
  auto given = std::make_shared<stats_arguments>();
  command verb = line.add("stats", "Minimum, maximum, mean and deviation of an array or a selection");
  verb.required("URI", given->uri, "A path or a URI");
  verb.option("SELECTION", given->selection, "As in Python: '0:10, ::2', '..., -1'; default: the whole array");
  verb.option("--skip", given->skip, "Omit elements equal to this number, such as a nodata value");
  verb.threads(given->threads, "Threads for decoding; default: one for each core");
  verb.json("Print one JSON document");
  verb.footer(
      "Needs memory for 64 MiB of elements, or one layer of chunks. NaN is counted and omitted; std is that of the\n"
      "population.\n\nExamples:\n  penstock stats data.zarr/t2m\n  penstock stats scene.tif '0' --skip -9999");
  verb.runs([given](const session& speak) { return stats(speak, *given); });
}

}  // namespace penstock::inline v0::cli
