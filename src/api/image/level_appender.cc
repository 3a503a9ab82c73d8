#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <penstock/levels.h>

#include "api/image/level_names.h"
#include "array/conversion.h"
#include "array/mode_rows.h"
#include "array/strided_copy.h"
#include "array/weighted_means.h"
#include "base/checked.h"
#include "base/counted.h"
#include "base/output_pool.h"
#include "driver/metadata_edit.h"
#include "engine/array_state.h"
#include "engine/context_state.h"
#include "format/tiff/tiff_overview.h"

namespace penstock::inline v0 {
namespace {

/// Rows whose halves are computed at a time.
constexpr std::uint64_t kStepBytes = std::uint64_t{16} << 20;

bool has_mode(const dtype& type) noexcept {
  const std::uint32_t item = type.item_bytes();
  return item == 1 || item == 2 || item == 4 || item == 8;
}

void halve(std::byte* to, const std::byte* from, std::ptrdiff_t row, std::ptrdiff_t pixel, std::uint64_t rows,
           std::uint64_t width, const dtype& type, level_rule rule) noexcept {
  if (rule == level_rule::mode) return halve_by_mode(to, from, row, pixel, rows, width, type.item_bytes());
  const overview_rule how{type, rule == level_rule::mean, {}};
  halve_rows(to, (width + 1) / 2 * type.item_bytes(), from, row, pixel, rows, width, how);
}

// The types of `halve_rows`: it computes halves of 16 bits, and complex numbers, without a conversion.
bool has_mean(const dtype& type) noexcept {
  const std::uint32_t item = type.item_bytes();
  if (type.kind() == dtype_kind::floating) return true;
  if (type.kind() == dtype_kind::complex) return item == 8 || item == 16;
  return has_weighted_means(type);
}

result<> check_rule(const dtype& type, level_rule rule) {
  if (type.variable_length())
    return error(errc::unsupported, fmt::format("values of {} have no levels: their size is not fixed", type.name()));
  const bool fits = rule == level_rule::mean ? has_mean(type) : rule == level_rule::mode ? has_mode(type) : true;
  if (fits) return {};
  return error(errc::unsupported, fmt::format("values of {} have no {}: 'nearest' accepts any type of fixed size",
                                              type.name(), rule == level_rule::mean ? "mean" : "mode"));
}

}  // namespace

extents level_shape(const extents& image, unsigned number) {
  extents out = image;
  for (std::size_t d = image.size() < 2 ? image.size() : image.size() - 2; d < image.size(); ++d)
    for (unsigned i = 0; i < number; ++i) out[d] = out[d] / 2 + out[d] % 2;
  return out;
}

class level_appender_state {
 public:
  level_appender_state(const group& in, std::vector<std::pair<std::string, array>> levels, const level_options& options)
      : in_(in), levels_(std::move(levels)), options_(options), odd_(levels_.size()), waiting_(levels_.size()) {}

  result<> begin() {
    for (const auto& each : levels_) {
      PENSTOCK_ASSIGN(appender made, appender::make(each.second, 0, options_.appends));
      to_.push_back(std::move(made));
    }
    return {};
  }

  result<> append(const tensor_view& rows, const progress_fn& progress) {
    if (rows.space != memory_space::host)
      return error(errc::unsupported, "rows in device memory have no levels: copy them to host memory");
    PENSTOCK_TRY(send_waiting());  // before the image takes a row
    std::uint64_t row_bytes = std::max(rows.type.item_bytes(), type().item_bytes());
    for (std::size_t d = 1; d < rows.extents.size(); ++d) row_bytes = saturating_mul(row_bytes, rows.extents[d]);
    const std::uint64_t step = std::max<std::uint64_t>(1, kStepBytes / std::max<std::uint64_t>(1, row_bytes));
    if (rows.extents.empty() || rows.extents[0] == 0) return append_step(rows);
    std::uint64_t item_bytes = rows.type.item_bytes();
    for (std::size_t d = 1; d < rows.extents.size(); ++d) item_bytes = saturating_mul(item_bytes, rows.extents[d]);
    tensor_view some = rows;
    for (std::uint64_t at = 0; at < rows.extents[0]; at += step) {
      some.extents[0] = std::min(step, rows.extents[0] - at);
      some.data = rows.data + static_cast<std::ptrdiff_t>(at) * rows.strides[0];
      auto done = append_step(some);
      if (!done.ok()) {
        if (at == 0) return done;
        return std::move(done).error().note(fmt::format("rows taken before these: {}", at));
      }
      const read_progress now{(at + some.extents[0]) * item_bytes, rows.extents[0] * item_bytes};
      if (progress && !progress(now)) return error(errc::cancelled, "the caller stopped it");
    }
    return {};
  }

  result<> flush() {
    PENSTOCK_TRY(send_waiting());
    for (appender& each : to_) PENSTOCK_TRY(each.flush());
    return {};
  }

  result<group> close() {
    if (std::exchange(closed_, true)) return in_;
    std::optional<error> failed;
    const auto keep = [&](error why) {
      if (!failed) {
        failed.emplace(std::move(why));
      } else {
        failed->note("another error: " + why.to_string());
      }
    };
    if (levels_.size() > 1 && is_by_rows()) {
      feed(1, tensor_view::contiguous(nullptr, type(), with_rows(0, 0)), true);
    }
    if (failed_) keep(*std::exchange(failed_, std::nullopt));
    for (std::size_t level = 1; level < levels_.size(); ++level)
      if (auto sent = send(level); !sent.ok()) keep(std::move(sent).error());
    std::size_t complete = 0;
    std::uint64_t rows = 0;
    for (std::size_t i = 0; i < to_.size(); ++i) {
      auto done = to_[i].close();
      if (!done.ok()) {
        keep(std::move(done).error());
        continue;
      }
      if (i == 0) rows = done->shape()[0];
      const std::uint64_t wanted = is_by_rows() ? level_shape(extents{rows, 1}, static_cast<unsigned>(i))[0] : rows;
      if (complete == i && done->shape()[0] == wanted) ++complete;
    }
    if (!failed && complete < levels_.size())
      keep(error(errc::conflict, fmt::format("level {} has other rows than the image", complete)));
    if (complete > 0) {
      auto named = in_.update_attributes(names_of_levels(levels_, complete, options_));
      if (!named.ok()) {
        keep(std::move(named).error());
      } else {
        in_ = std::move(*named);
      }
    }
    if (failed) return std::move(*failed);
    return in_;
  }

 private:
  const dtype& type() const noexcept { return levels_[0].second.type(); }
  // Dimension 0 is y.
  bool is_by_rows() const noexcept { return levels_[0].second.shape().size() == 2; }
  extents with_rows(std::size_t level, std::uint64_t rows) const {
    extents out = levels_[level].second.shape();
    out[0] = rows;
    return out;
  }

  result<> append_step(const tensor_view& rows) {
    if (!(rows.type == type()) && converts(rows.type, type())) return append_converted(rows);
    const std::uint64_t before = to_[0].rows();
    auto done = to_[0].append(rows);
    // The coarser levels receive the rows that the image accepted, which may be some of them.
    tensor_view taken = rows;
    if (!taken.extents.empty()) taken.extents[0] = to_[0].rows() - before;
    if (done.ok() || to_[0].rows() != before) feed(1, taken, false);
    return done;
  }

  result<> append_converted(const tensor_view& rows) {
    PENSTOCK_ASSIGN(const conversion how, conversion_of(rows.type, type()));
    PENSTOCK_ASSIGN(const std::uint64_t count, element_count(rows.extents));
    const std::uint32_t item = rows.type.item_bytes();
    output_pool& pool = levels_[0].second.context()->state().outputs();
    const strides c_order = c_order_strides(rows.extents, item);
    PENSTOCK_ASSIGN(const output_block made, pool.take(count * type().item_bytes()));
    if (rows.strides == c_order && count > 0) {
      convert_items(how, rows.data, made.data(), count);
    } else if (count > 0) {
      PENSTOCK_ASSIGN(const output_block given, pool.take(count * item));
      strided_copy(given.data(), c_order, rows.data, rows.strides, rows.extents, item, 1);
      convert_items(how, given.data(), made.data(), count);
    }
    return append_step(tensor_view::contiguous(made.data(), type(), rows.extents));
  }

  // Computes rows of `level`, and of those after it, from rows of the one before. Rows that a level refuses wait until
  // the next call: `append` must not fail after the image accepted its rows, because the caller would append them
  // again.
  void feed(std::size_t level, const tensor_view& rows, bool is_end) {
    if (level == levels_.size()) return;
    const bool by_rows = is_by_rows();
    std::vector<std::byte>& odd = odd_[level];
    std::uint64_t rest = rows.extents[0];
    // Rows are halved in pairs: a single one waits for the next.
    const bool joins = by_rows && !odd.empty() && (rest > 0 || is_end);
    const std::uint64_t first = joins && rest > 0 ? 1 : 0;  // completes the waiting one
    rest -= first;
    const std::uint64_t left = by_rows && !is_end ? rest % 2 : 0;
    rest -= left;
    const extents shape = by_rows ? extents{(joins ? 1U : 0U) + rest / 2 + rest % 2, level_width(level)}
                                  : with_rows(level, rows.extents[0]);
    std::uint64_t bytes = type().item_bytes();
    for (const std::uint64_t each : shape) bytes *= each;  // fewer than those of `rows`
    auto taken = levels_[0].second.context()->state().outputs().take(bytes);
    if (!taken.ok()) {
      if (!failed_) failed_.emplace(std::move(taken).error().note(fmt::format("level {} lost rows", level)));
      return;
    }
    const tensor_view half = tensor_view::contiguous(taken->data(), type(), shape);
    if (joins) {
      const std::size_t row_bytes = odd.size();
      odd.resize(row_bytes * (1 + first));
      if (first > 0) copy_row(rows, 0, odd.data() + row_bytes);
      tensor_view to = half;
      to.extents[0] = 1;
      halve_all(tensor_view::contiguous(odd.data(), type(), extents{1 + first, rows.extents[1]}), to);
      odd.clear();
    }
    tensor_view from = rows, to = half;
    if (by_rows) {
      from.data += static_cast<std::int64_t>(first) * from.strides[0];
      from.extents[0] = rest;
      if (joins) {
        to.data += to.strides[0];
        --to.extents[0];
      }
    }
    if (bytes > 0 && from.extents[0] > 0) halve_all(from, to);
    if (left > 0) {
      odd.resize(static_cast<std::size_t>(rows.extents[1] * type().item_bytes()));
      copy_row(rows, rows.extents[0] - 1, odd.data());
    }
    feed(level + 1, half, is_end);
    if (shape[0] == 0) return;
    waiting_[level].push_back({std::move(*taken), shape});
    if (failed_) return;  // it is returned before another attempt
    auto sent = send(level);
    if (!sent.ok() && sent.error().code() != errc::cancelled) failed_.emplace(std::move(sent).error());
  }

  void copy_row(const tensor_view& rows, std::uint64_t number, std::byte* to) const noexcept {
    const std::byte* const from = rows.data + static_cast<std::int64_t>(number) * rows.strides[0];
    extents one = rows.extents;
    one[0] = 1;
    strided_copy(to, c_order_strides(one, type().item_bytes()), from, rows.strides, one, type().item_bytes(), 1);
  }

  // Appends the waiting rows of a level, in their order.
  result<> send(std::size_t level) {
    std::deque<level_rows>& waiting = waiting_[level];
    while (!waiting.empty()) {
      level_rows& next = waiting.front();
      const std::uint64_t before = to_[level].rows();
      tensor_view rows = tensor_view::contiguous(next.memory.data(), type(), next.shape);
      rows.data += static_cast<std::int64_t>(next.sent) * rows.strides[0];
      rows.extents[0] -= next.sent;
      auto done = to_[level].append(rows);
      if (done.ok()) {
        waiting.pop_front();
        continue;
      }
      next.sent += to_[level].rows() - before;  // by an append that was interrupted
      if (next.sent == next.shape[0]) waiting.pop_front();
      return done;
    }
    return {};
  }

  // Returns the error of an earlier call, once, or appends the waiting rows of all levels.
  result<> send_waiting() {
    if (failed_) return *std::exchange(failed_, std::nullopt);
    for (std::size_t level = 1; level < levels_.size(); ++level) PENSTOCK_TRY(send(level));
    return {};
  }

  std::uint64_t level_width(std::size_t level) const noexcept { return levels_[level].second.shape()[1]; }

  // Every plane of the last two dimensions.
  void halve_all(const tensor_view& from, const tensor_view& to) const noexcept {
    const std::size_t rank = from.extents.size(), y = rank - 2, x = rank - 1;
    dim_vector<std::uint64_t> at(y, 0);
    for (std::byte* out = to.data;;) {
      const std::byte* plane = from.data;
      for (std::size_t d = 0; d < y; ++d) plane += static_cast<std::int64_t>(at[d]) * from.strides[d];
      halve(out, plane, from.strides[y], from.strides[x], from.extents[y], from.extents[x], type(), options_.rule);
      out += to.extents[y] * to.extents[x] * type().item_bytes();
      std::size_t d = y;
      while (d-- > 0) {
        if (++at[d] < from.extents[d]) break;
        at[d] = 0;
      }
      if (d == static_cast<std::size_t>(-1)) return;
    }
  }

  group in_;
  const std::vector<std::pair<std::string, array>> levels_;
  const level_options options_;
  std::vector<appender> to_;
  struct level_rows {
    output_block memory;
    extents shape;
    std::uint64_t sent = 0;  // rows that its appender has taken
  };

  std::vector<std::vector<std::byte>> odd_;
  std::vector<std::deque<level_rows>> waiting_;  // by level: rows that its appender has not taken
  std::optional<error> failed_;                  // of a coarser level: not returned yet
  bool closed_ = false;
};

result<level_appender> level_appender::make(const group& in, std::vector<std::pair<std::string, array>> levels,
                                            const level_options& options) {
  if (levels.empty()) return error(errc::invalid_argument, "an image has at least one level");
  const array& image = levels[0].second;
  const std::size_t rank = image.shape().size();
  if (rank < 2 || (options.convention == level_convention::ome && rank > 5))
    return error(errc::invalid_argument, fmt::format("an image of {}: levels have y and x, OME-Zarr at most 5 "
                                                     "dimensions",
                                                     counted(rank, "dimension")));
  PENSTOCK_TRY(check_rule(image.type(), options.rule));
  for (std::size_t i = 0; i < levels.size(); ++i) {
    extents wanted = level_shape(image.shape(), static_cast<unsigned>(i));
    wanted[0] = levels[i].second.shape()[0];
    if (!(levels[i].second.shape() == wanted) || !(levels[i].second.type() == image.type()))
      return error(
          errc::invalid_argument,
          fmt::format("level {} has shape {} and dtype {}, expected {} and {}", i, to_string(levels[i].second.shape()),
                      levels[i].second.type().name(), to_string(wanted), image.type().name()));
    if (levels[i].second.shape()[0] != 0)
      return error(errc::invalid_argument,
                   fmt::format("level '{}' already has rows: its coarser levels cannot be computed "
                               "from new rows alone",
                               levels[i].first));
  }
  auto state = std::make_unique<level_appender_state>(in, std::move(levels), options);
  PENSTOCK_TRY(state->begin());
  return level_appender(std::move(state));
}

level_appender::level_appender(std::unique_ptr<level_appender_state> state) noexcept : state_(std::move(state)) {}
level_appender::level_appender(level_appender&&) noexcept = default;
level_appender& level_appender::operator=(level_appender&&) noexcept = default;
level_appender::~level_appender() = default;
result<> level_appender::append(const tensor_view& rows, const progress_fn& progress) {
  return state_->append(rows, progress);
}
result<> level_appender::flush() { return state_->flush(); }
result<group> level_appender::close() { return state_->close(); }

}  // namespace penstock::inline v0
