#include "driver/npy_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "array/item_swap.h"
#include "array/strided_copy.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "driver/new_type.h"
#include "engine/blocking_read.h"
#include "engine/context_state.h"
#include "format/npy/npy_header.h"
#include "store/spool_file.h"

namespace penstock::inline v0 {
namespace {

/// Bytes that are converted and written at a time.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

error wrong_npy(std::string what) { return {errc::invalid_argument, std::move(what)}; }

/// How items are stored.
struct stored_items {
  dtype type;                ///< of the values that are written
  std::string descr;         ///< Python text
  bool swaps = false;        ///< values have the other byte order
  std::vector<bool> leaves;  ///< the leaves of a structure that are swapped; empty: all
};

result<stored_items> items_of_new(const create_options& how) {
  stored_items out;
  bool numpy = false;  // or a name of version 3, which has no byte order
  if (!how.dtype_json.empty()) {
    auto parsed = json::parse(how.dtype_json);
    if (!parsed.ok()) return wrong_npy(fmt::format("dtype is not JSON: {}", parsed.error().message()));
    const std::string descr = parsed->as_string() != nullptr ? *parsed->as_string() : how.dtype_json;
    numpy = !descr.empty() && std::string_view("<>|=[").find(descr.front()) != std::string_view::npos;
    if (numpy) {
      PENSTOCK_ASSIGN(out.descr, python_descr(descr));
    }
  }
  if (numpy && how.type.kind() == dtype_kind::raw) {
    out.type = how.type;
    return out;
  }
  PENSTOCK_ASSIGN(zarr_v2_type made, type_of_new(how));
  if (made.type.variable_length() || made.type.item_bytes() == 0 || made.type.numpy_descr().empty())
    return error(errc::unsupported, fmt::format("items of {} cannot be written to a .npy file", made.type.name()));
  const auto is_other = [](const json& endian) {
    return endian.as_string() != nullptr && (*endian.as_string() == "big") != kNativeBig;
  };
  out.swaps = is_other(made.endian);
  if (const json::array_t* const each = made.endian.as_array()) {
    for (const json& leaf : *each) out.leaves.push_back(is_other(leaf));
    out.swaps = std::find(out.leaves.begin(), out.leaves.end(), true) != out.leaves.end();
  }
  if (!numpy) out.descr = made.type.numpy_descr();
  out.type = std::move(made.type);
  return out;
}

class npy_writer final : public array_writer {
 public:
  npy_writer(new_location at, const create_options& how, stored_items items) noexcept
      : at_(std::move(at)), shape_(how.shape), items_(std::move(items)) {
    if (!how.overwrite) condition_.what = write_condition::kind::must_be_absent;
    condition_.durable = how.durable;
  }

  result<> begin();
  result<> write(std::span<const std::uint64_t> origin, const tensor_view& values) override;
  result<> close() override;
  void discard() noexcept override {
    const std::lock_guard lock(mutex_);
    let_go();
  }
  bool closed() const noexcept override {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  void let_go() noexcept {
    closed_ = true;
    staged_.reset();
    spool_.reset();
  }
  result<> check(std::span<const std::uint64_t> origin, const tensor_view& values) const;
  result<bool> stage_all(const tensor_view& values);
  result<> spool(std::span<const std::uint64_t> origin, const tensor_view& values);
  result<> write_run(std::uint64_t first_item, const std::byte* from, const strides& steps, const extents& counts,
                     buffer& piece);
  result<> store_file();
  error note(error why) const { return std::move(why).note(fmt::format("writing '{}'", at_.uri)); }

  mutable std::mutex mutex_;
  new_location at_;
  extents shape_;
  stored_items items_;
  write_condition condition_;
  std::string header_;
  std::uint64_t bytes_ = 0;                // of all items
  std::unique_ptr<staged_object> staged_;  // the whole file, after one write of all items
  std::unique_ptr<spool_file> spool_;      // otherwise: all items
  bool closed_ = false;
};

result<> npy_writer::begin() {
  if (at_.path.empty()) return wrong_npy("a .npy file needs a name within its store");
  if (!at_.to->traits().writable) return error{errc::read_only, "this store is read-only"};
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(shape_));
  if (!checked_mul(count, items_.type.item_bytes(), bytes_) || bytes_ >> 63 != 0)
    return wrong_npy("the file would have more than 2^63 bytes");
  header_ = write_npy_header(items_.descr, storage_order::c, shape_);
  if (condition_.what == write_condition::kind::none) return {};
  const auto found = read_and_wait(*at_.to, at_.path, {0, 0, false}, byte_range::kAll);
  if (found.ok()) return wrong_npy("it already exists (overwrite replaces it)");
  if (found.error().code() != errc::not_found) return found.error().clone();
  return {};
}

result<> npy_writer::check(std::span<const std::uint64_t> origin, const tensor_view& values) const {
  if (closed_) return wrong_npy("this file is closed");
  const std::size_t rank = shape_.size();
  if (origin.size() != rank || values.extents.size() != rank)
    return wrong_npy(fmt::format("origin and values have {} and {} dimensions, the array has {}", origin.size(),
                                 values.extents.size(), rank));
  if (!(values.type == items_.type) || values.space != memory_space::host)
    return wrong_npy(fmt::format("values should be host memory of {}", items_.type.name()));
  for (std::size_t d = 0; d < rank; ++d)
    if (origin[d] > shape_[d] || values.extents[d] > shape_[d] - origin[d])
      return error(errc::out_of_range, fmt::format("[{}, {}) exceeds dimension {} of length {}", origin[d],
                                                   origin[d] + values.extents[d], d, shape_[d]));
  return {};
}

/// Writes a file whose items are all given at once, without a copy. Returns false if the store or the items need one.
result<bool> npy_writer::stage_all(const tensor_view& values) {
  if (staged_ || spool_ || items_.swaps || values.extents != shape_ ||
      values.strides != c_order_strides(shape_, items_.type.item_bytes()))
    return false;
  const part parts[] = {std::as_bytes(std::span(header_)), {values.data, static_cast<std::size_t>(bytes_)}};
  PENSTOCK_ASSIGN(staged_, at_.to->stage(at_.path, parts, condition_));
  return staged_ != nullptr;
}

/// Writes items that are adjacent in the file.
/// \param counts  Of the last dimensions.
result<> npy_writer::write_run(std::uint64_t first_item, const std::byte* from, const strides& steps,
                               const extents& counts, buffer& piece) {
  const std::uint32_t item = items_.type.item_bytes();
  PENSTOCK_ASSIGN(const std::uint64_t count, element_count(counts));
  if (count * item > kPieceBytes && !counts.empty() && counts[0] > 1) {
    const std::uint64_t of_row = count / counts[0];
    const std::uint64_t rows = std::max<std::uint64_t>(1, kPieceBytes / (of_row * item));
    for (std::uint64_t at = 0; at < counts[0]; at += rows) {
      extents some = counts;
      some[0] = std::min(rows, counts[0] - at);
      PENSTOCK_TRY(
          write_run(first_item + at * of_row, from + static_cast<std::ptrdiff_t>(at) * steps[0], steps, some, piece));
    }
    return {};
  }
  if (count * item > kPieceBytes && counts.size() > 1) {  // one long row
    const extents inner(std::span<const std::uint64_t>(counts).subspan(1));
    const strides inner_steps(std::span<const std::int64_t>(steps).subspan(1));
    return write_run(first_item, from, inner_steps, inner, piece);
  }
  std::span<const std::byte> out(from, static_cast<std::size_t>(count * item));
  const strides stored = c_order_strides(counts, item);
  if (items_.swaps || steps != stored) {
    PENSTOCK_TRY(piece.reserve(count * item));
    strided_copy(piece.data(), stored, from, steps, counts, item, 1);
    if (items_.swaps) swap_items(piece.data(), count, items_.type, items_.leaves);
    out = {piece.data(), out.size()};
  }
  return spool_->write(first_item * item, out);
}

result<> npy_writer::spool(std::span<const std::uint64_t> origin, const tensor_view& values) {
  if (!spool_) {
    PENSTOCK_ASSIGN(spool_, spool_file::make(spool_folder(at_.uri)));
    PENSTOCK_TRY(spool_->extend(bytes_));
  }
  // The last dimensions that are written completely, and the one before them, are one run of the file.
  const std::size_t rank = shape_.size();
  std::size_t outer = rank;
  while (outer > 0 && values.extents[outer - 1] == shape_[outer - 1]) --outer;
  if (outer > 0) --outer;
  const extents counts(std::span<const std::uint64_t>(values.extents).subspan(outer));
  const strides steps(std::span<const std::int64_t>(values.strides).subspan(outer));
  buffer piece(&at_.context->state().accounts());
  extents index(outer, 0);
  for (;;) {
    std::uint64_t first = 0;
    const std::byte* from = values.data;
    for (std::size_t d = 0; d < rank; ++d) first = first * shape_[d] + origin[d] + (d < outer ? index[d] : 0);
    for (std::size_t d = 0; d < outer; ++d) from += static_cast<std::ptrdiff_t>(index[d]) * values.strides[d];
    PENSTOCK_TRY(write_run(first, from, steps, counts, piece));
    std::size_t d = outer;
    while (d > 0 && ++index[d - 1] == values.extents[d - 1]) index[--d] = 0;
    if (d == 0) return {};
  }
}

result<> npy_writer::write(std::span<const std::uint64_t> origin, const tensor_view& values) {
  const std::lock_guard lock(mutex_);
  if (auto checked = check(origin, values); !checked.ok()) return note(std::move(checked).error());
  if (std::find(values.extents.begin(), values.extents.end(), 0) != values.extents.end()) return {};
  auto staged = stage_all(values);
  if (!staged.ok()) return note(std::move(staged).error());
  if (*staged) return {};
  if (staged_) return note(wrong_npy("all items are written already"));
  if (auto done = spool(origin, values); !done.ok()) return note(std::move(done).error());
  return {};
}

result<> npy_writer::store_file() {
  if (staged_) {
    PENSTOCK_TRY(std::move(at_.to->publish({&staged_, 1}).front()));
    return at_.to->flush();
  }
  if (!spool_ && bytes_ != 0) {
    PENSTOCK_ASSIGN(spool_, spool_file::make(spool_folder(at_.uri)));
    PENSTOCK_TRY(spool_->extend(bytes_));
  }
  const auto items = spool_ ? spool_->map() : result<spool_file::view>(spool_file::view());
  if (!items.ok()) return items.error().clone();
  const part parts[] = {std::as_bytes(std::span(header_)), items->bytes()};
  PENSTOCK_TRY(at_.to->put(at_.path, parts, condition_));
  return at_.to->flush();
}

result<> npy_writer::close() {
  const std::lock_guard lock(mutex_);
  if (closed_) return {};
  auto done = store_file();
  if (!done.ok()) {
    if (done.error().code() == errc::version_changed)
      return note(wrong_npy("another writer has created it meanwhile (overwrite replaces it)"));
    return note(std::move(done).error());
  }
  let_go();
  return {};
}

}  // namespace

result<std::unique_ptr<array_writer>> begin_npy(const new_location& at, const create_options& how) {
  PENSTOCK_TRY(refuse_zarr_options(how, ".npy files"));
  if (how.tiff) return wrong_npy(".npy files have no options of TIFFs");
  if (!how.attributes_json.empty() && how.attributes_json != "{}") return wrong_npy(".npy files have no attributes");
  PENSTOCK_ASSIGN(stored_items items, items_of_new(how));
  auto made = std::make_unique<npy_writer>(at, how, std::move(items));
  PENSTOCK_TRY(made->begin());
  return std::unique_ptr<array_writer>(std::move(made));
}

}  // namespace penstock::inline v0
