#include <penstock/batches.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "api/loader/crop_sources.h"
#include "array/converted_copy.h"
#include "array/strided_copy.h"
#include "base/checked.h"
#include "base/output_pool.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

/// Crops of one stored type: they are read together.
struct batch_part {
  dtype type;
  std::vector<array_crop> crops;
  std::vector<std::size_t> rows;  ///< of the batch, one for each crop
};

result<std::vector<batch_part>> parts_of(std::vector<array_crop> crops, bool may_differ) {
  std::vector<batch_part> out;
  for (std::size_t i = 0; i < crops.size(); ++i) {
    const dtype& type = crops[i].from.type();
    std::size_t which = 0;
    while (which < out.size() && !(out[which].type == type)) ++which;
    if (which == out.size()) {
      if (which > 0 && !may_differ)
        return error(errc::invalid_argument, fmt::format("the arrays are of {} and {}: set the dtype of the batches",
                                                         out[0].type.name(), type.name()))
            .note("array '" + crops[i].from.uri() + "'");
      out.push_back({type, {}, {}});
    }
    out[which].rows.push_back(i);
    out[which].crops.push_back(std::move(crops[i]));
  }
  return out;
}

/// The part of one batch.
struct batch_memory {
  output_block block;
  std::vector<std::shared_ptr<item_arena>> bytes_of_items;  // of variable length, for each crop
};

result<owned_tensor> take(const array& of, const dtype& type, const extents& shape, std::size_t arenas = 0) {
  PENSTOCK_ASSIGN(std::uint64_t bytes, element_count(shape));
  if (!checked_mul(bytes, type.item_bytes(), bytes))
    return error(errc::invalid_argument, fmt::format("a batch of shape {} has more than 2^64 bytes", to_string(shape)));
  const auto owner = std::make_shared<batch_memory>();
  PENSTOCK_ASSIGN(owner->block, of.context()->state().outputs().take(bytes));
  for (std::size_t i = 0; i < arenas; ++i) owner->bytes_of_items.push_back(std::make_shared<item_arena>());
  if (arenas > 0 && bytes > 0) std::memset(owner->block.data(), 0, bytes);  // empty items
  return owned_tensor{tensor_view::contiguous(owner->block.data(), type, shape), owner};
}

/// True if the crops are not boxes of items of fixed length: these are read one by one.
bool are_read_alone(std::span<const array_crop> crops) {
  return std::any_of(crops.begin(), crops.end(), [](const array_crop& each) {
    return each.which.indexed != nullptr || each.from.type().variable_length();
  });
}

result<extents> shape_of(std::span<const array_crop> crops) {
  if (!are_read_alone(crops)) return crops_shape(crops);
  const extents& first = crops[0].which.shape;
  if (first.size() == kMaxRank)
    return error(errc::invalid_argument, fmt::format("a crop has at most {} dimensions", kMaxRank - 1));
  extents out{crops.size()};
  for (const std::uint64_t each : first) out.push_back(each);
  for (const array_crop& each : crops)
    if (!(each.which.shape == first))
      return error(errc::invalid_argument, fmt::format("the crops of a batch have one shape: {} and {}",
                                                       to_string(first), to_string(each.which.shape)))
          .note("array '" + each.from.uri() + "'");
  return out;
}

/// Converts the rows of one type and writes them to their places in the batch.
void convert_rows(const owned_tensor& from, const std::vector<std::size_t>& rows, const conversion& how,
                  const owned_tensor& to) {
  extents row = to.view.extents;
  row[0] = 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::byte* const target = to.view.data + static_cast<std::int64_t>(rows[i]) * to.view.strides[0];
    const std::byte* const source = from.view.data + static_cast<std::int64_t>(i) * from.view.strides[0];
    if (how.converts()) {
      strided_convert(target, to.view.strides, source, from.view.strides, row, how, 1);
    } else {  // equal types
      strided_copy(target, to.view.strides, source, from.view.strides, row, from.view.type.item_bytes(), 1);
    }
  }
}

}  // namespace

class batches_state {
 public:
  batches_state(crop_generator crops, batch_options options) : crops_(std::move(crops)), options_(std::move(options)) {}

  result<std::optional<owned_tensor>> next() {
    if (options_.device) return error(errc::invalid_argument, "these batches are in device memory: next_on_device");
    auto out = take_next();
    if (!out.ok()) cancel();
    return out;
  }

  result<std::optional<device_tensor>> next_on_device() {
    if (!options_.device) return error(errc::invalid_argument, "these batches are in host memory: next");
    auto out = take_next_on_device();
    if (!out.ok()) cancel();
    return out;
  }

  void cancel() noexcept {
    ended_ = true;
    for (under_way& each : ahead_)
      for (read& one : each.reads) one.reading.cancel();
    for (device_tensor& each : on_device_) each.cancel();
    ahead_.clear();  // waits for the reads
    on_device_.clear();
  }

 private:
  // Order of members: the read ends before its memory is released.
  struct read {
    owned_tensor values;  // the batch's own, if nothing is converted
    std::vector<std::size_t> rows;
    std::optional<conversion> how;
    ticket reading;
  };
  struct under_way {
    owned_tensor values;
    std::vector<read> reads;
  };

  /// Begins batches until `depth` of them are ahead of the next one.
  template <class Batch, class Begin>
  result<> read_ahead(std::deque<Batch>& ahead, const Begin& begin_batch) {
    while (!ended_ && ahead.size() <= options_.depth) {
      PENSTOCK_ASSIGN(std::vector<array_crop> chosen, choose());
      if (chosen.size() < options_.size) ended_ = true;
      if (chosen.empty() || (ended_ && options_.drop_last)) break;
      PENSTOCK_ASSIGN(Batch begun, begin_batch(std::move(chosen)));
      ahead.push_back(std::move(begun));
    }
    return {};
  }

  result<std::optional<device_tensor>> take_next_on_device() {
    device_read_options how;
    how.device = *options_.device;
    how.type = options_.type;
    how.threads = options_.threads;
    PENSTOCK_TRY(read_ahead(on_device_, [&](const std::vector<array_crop>& crops) {
      return read_crops_to_device(crops, std::nullopt, how);
    }));
    if (on_device_.empty()) return std::optional<device_tensor>();
    device_tensor first = std::move(on_device_.front());
    on_device_.pop_front();
    PENSTOCK_TRY(options_.check ? first.synchronize() : first.wait());
    return std::optional(std::move(first));
  }

  result<std::optional<owned_tensor>> take_next() {
    PENSTOCK_TRY(read_ahead(ahead_, [&](std::vector<array_crop> crops) { return begin(std::move(crops)); }));
    if (ahead_.empty()) return std::optional<owned_tensor>();
    under_way first = std::move(ahead_.front());
    ahead_.pop_front();
    for (read& each : first.reads) {
      PENSTOCK_TRY(each.reading.wait());
      if (each.how) convert_rows(each.values, each.rows, *each.how, first.values);
    }
    return std::optional(first.values);
  }

  result<std::vector<array_crop>> choose() {
    std::vector<array_crop> out;
    while (out.size() < options_.size) {
      PENSTOCK_ASSIGN(std::optional<array_crop> crop, crops_());
      if (!crop) break;
      out.push_back(std::move(*crop));
    }
    return out;
  }

  /// Each crop by a read of its own, into its row.
  result<under_way> begin_alone(std::span<const array_crop> crops, const extents& shape, const dtype& type) {
    under_way out;
    const bool has_items = type.variable_length();
    PENSTOCK_ASSIGN(out.values, take(crops[0].from, type, shape, has_items ? crops.size() : 0));
    const auto& memory = *static_cast<const batch_memory*>(out.values.owner.get());
    for (std::size_t i = 0; i < crops.size(); ++i) {
      if (!options_.type && !(crops[i].from.type() == type)) {
        auto differs = parts_of(std::vector(crops.begin(), crops.end()), false);
        return std::move(differs).error();
      }
      tensor_view row;
      row.type = type;
      row.data = out.values.view.data + static_cast<std::int64_t>(i) * out.values.view.strides[0];
      for (std::size_t d = 1; d < shape.size(); ++d) {
        row.extents.push_back(shape[d]);
        row.strides.push_back(out.values.view.strides[d]);
      }
      read_options how;
      how.threads = options_.threads;
      how.type = options_.type;
      if (has_items) how.arena = memory.bytes_of_items[i];
      read one;
      PENSTOCK_ASSIGN(one.reading, crops[i].from.read_async(crops[i].which, row, how));
      out.reads.push_back(std::move(one));
    }
    return out;
  }

  result<under_way> begin(std::vector<array_crop> crops) {
    PENSTOCK_ASSIGN(const extents shape, shape_of(crops));
    const array first = crops[0].from;
    const dtype type = options_.type ? *options_.type : first.type();
    if (are_read_alone(crops)) return begin_alone(crops, shape, type);
    PENSTOCK_ASSIGN(std::vector<batch_part> parts, parts_of(std::move(crops), options_.type.has_value()));
    under_way out;
    PENSTOCK_ASSIGN(out.values, take(first, type, shape));
    read_options how;
    how.threads = options_.threads;
    for (batch_part& each : parts) {
      read one;
      one.rows = std::move(each.rows);
      if (each.type == type && parts.size() == 1) {
        one.values = out.values;
      } else {
        auto converts = conversion_of(each.type, type);
        if (!converts.ok()) return std::move(converts).error().note("array '" + each.crops[0].from.uri() + "'");
        one.how = *converts;
        extents own = shape;
        own[0] = each.crops.size();
        PENSTOCK_ASSIGN(one.values, take(first, each.type, own));
      }
      PENSTOCK_ASSIGN(one.reading, read_crops_async(each.crops, one.values.view, how));
      out.reads.push_back(std::move(one));
    }
    return out;
  }

  const crop_generator crops_;
  const batch_options options_;
  std::deque<under_way> ahead_;
  std::deque<device_tensor> on_device_;  // used instead
  bool ended_ = false;
};

void batches_state_deleter::operator()(batches_state* state) const noexcept { delete state; }

crop_batches::crop_batches(std::unique_ptr<batches_state, batches_state_deleter> state) noexcept
    : state_(std::move(state)) {}

result<crop_batches> crop_batches::make(crop_generator crops, batch_options options) {
  if (!crops) return error(errc::invalid_argument, "batches need a generator of crops");
  if (options.size == 0) return error(errc::invalid_argument, "a batch has 1 or more crops, not 0");
  return crop_batches(
      std::unique_ptr<batches_state, batches_state_deleter>(new batches_state(std::move(crops), std::move(options))));
}

result<std::optional<owned_tensor>> crop_batches::next() { return state_->next(); }
result<std::optional<device_tensor>> crop_batches::next_on_device() { return state_->next_on_device(); }
void crop_batches::cancel() noexcept { state_->cancel(); }

}  // namespace penstock::inline v0
