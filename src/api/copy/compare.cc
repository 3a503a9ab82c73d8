#include <penstock/compare.h>
#include <penstock/stream.h>
#include <penstock/variable.h>

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/copy/blocks.h"
#include "api/copy/first_difference.h"
#include "array/equals_fill.h"
#include "base/checked.h"
#include "base/output_pool.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

/// Bytes of one array's block; as many of the other array are in memory.
constexpr std::uint64_t kBlockBytes = std::uint64_t{16} << 20;

/// The dimensions whose length is not 1.
std::vector<std::size_t> long_dimensions(const extents& shape) {
  std::vector<std::size_t> out;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) out.push_back(d);
  return out;
}

bool same_shape(const extents& a, const extents& b) {
  const std::vector<std::size_t> of_a = long_dimensions(a), of_b = long_dimensions(b);
  if (of_a.size() != of_b.size()) return false;
  for (std::size_t i = 0; i < of_a.size(); ++i)
    if (a[of_a[i]] != b[of_b[i]]) return false;
  return true;
}

/// The same elements of an array whose shape has other dimensions of length 1.
resolved_basic selection_like(const box& block, const extents& shape, const extents& other) {
  const std::vector<std::size_t> from = long_dimensions(shape), to = long_dimensions(other);
  resolved_basic out;
  for (std::size_t d = 0; d < other.size(); ++d) {
    out.axis.push_back(static_cast<std::int8_t>(d));
    out.from.push_back({0, 1, 1});
    out.shape.push_back(1);
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    out.from[to[i]] = {static_cast<std::int64_t>(block.origin[from[i]]), 1, block.size[from[i]]};
    out.shape[to[i]] = block.size[from[i]];
  }
  return out;
}

bool is_number(const dtype& type) noexcept {
  return type.kind() <= dtype_kind::complex || type.kind() == dtype_kind::small_float;
}

/// The type in which elements are compared.
result<dtype> common_type(const dtype& a, const dtype& b) {
  if (a == b || (a.variable_length() && b.variable_length())) return a;
  const bool a_is_larger = a.item_bytes() >= b.item_bytes();
  const dtype &larger = a_is_larger ? a : b, &smaller = a_is_larger ? b : a;
  const bool fixed = !a.variable_length() && !b.variable_length(), as_long = a.item_bytes() == b.item_bytes();
  if (fixed && converts(smaller, larger)) return larger;
  if (fixed && as_long && converts(larger, smaller)) return smaller;  // int64 and float64 are compared as float64
  if (fixed && as_long && !(is_number(a) && is_number(b))) return a;
  return error(errc::invalid_argument, fmt::format("elements of {} and {} cannot be compared", a.name(), b.name()));
}

/// The option that reads elements of one type as another; nullopt if their bytes are those of the other.
std::optional<dtype> conversion_to(const dtype& type, const dtype& from) {
  if (type == from || type.variable_length() || !converts(from, type)) return std::nullopt;
  return type;
}

bool is_integer(const dtype& type) noexcept {
  return type.kind() == dtype_kind::signed_integer || type.kind() == dtype_kind::unsigned_integer;
}

/// The first of `count` integers with a negative sign; nullopt if none has.
std::optional<std::uint64_t> first_negative(const std::byte* items, std::uint64_t count, std::uint32_t bytes) noexcept {
  const std::byte* high = items + (std::endian::native == std::endian::little ? bytes - 1 : 0);
  for (std::uint64_t i = 0; i < count; ++i, high += bytes)
    if ((*high & std::byte{0x80}) != std::byte{0}) return i;
  return std::nullopt;
}

result<> compare_blocks(const array& from, const array& made, const progress_fn& now) {
  PENSTOCK_ASSIGN(const dtype type, common_type(from.type(), made.type()));
  stream_options how;
  how.tile = block_of(from.shape(), extents(from.shape().size(), 1), from.chunks(), type.item_bytes(), kBlockBytes);
  how.depth = 1;
  how.type = conversion_to(type, from.type());
  // Signed and unsigned integers of one size, compared as signed ones: equal bits are equal numbers unless negative.
  const bool mixes_signs = from.type().kind() != made.type().kind() && is_integer(from.type()) &&
                           is_integer(made.type()) && from.type().bits() == made.type().bits();
  PENSTOCK_ASSIGN(array_stream blocks, array_stream::make(from, std::move(how)));
  PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(from.shape()));
  for (std::uint64_t done = 0;;) {
    PENSTOCK_ASSIGN(const std::optional<stream_tile> wanted, blocks.next());
    if (!wanted) return {};
    PENSTOCK_ASSIGN(const std::uint64_t count, element_count(wanted->where.size));
    PENSTOCK_ASSIGN(const output_block found, made.context()->state().outputs().take(count * type.item_bytes()));
    read_options as;
    as.type = conversion_to(type, made.type());
    if (type.variable_length()) {
      as.arena = std::make_shared<item_arena>();
      if (count != 0) std::memset(found.data(), 0, count * type.item_bytes());  // empty items
    }
    const resolved_basic which = selection_like(wanted->where, from.shape(), made.shape());
    const dtype& read = as.type ? *as.type : made.type();
    PENSTOCK_TRY(made.read(which, tensor_view::contiguous(found.data(), read, which.shape), as));
    auto at = first_difference(wanted->values.view.data, found.data(), count, type);
    if (mixes_signs) {
      if (const auto sign = first_negative(found.data(), at.value_or(count), type.item_bytes())) at = sign;
    }
    if (at)
      return error(errc::corrupt_data,
                   fmt::format("element ({}) of the copy differs from the source's", position_in(wanted->where, *at)));
    done += count;
    if (now && !now({done * from.type().item_bytes(), elements * from.type().item_bytes()}))
      return error(errc::cancelled, "the comparison was stopped");
  }
}

}  // namespace

std::optional<std::uint64_t> first_difference(const std::byte* a, const std::byte* b, std::uint64_t count,
                                              const dtype& type) noexcept {
  const std::uint64_t item = type.item_bytes();
  const bool is_variable = type.variable_length();
  if (count == 0 || (!is_variable && std::memcmp(a, b, count * item) == 0)) return std::nullopt;
  for (std::uint64_t i = 0; i < count; ++i, a += item, b += item) {
    bool same = !is_variable && std::memcmp(a, b, item) == 0;
    if (is_variable) {
      variable_item x, y;
      std::memcpy(&x, a, sizeof x);
      std::memcpy(&y, b, sizeof y);
      same = x.size == y.size && (x.size == 0 || std::memcmp(x.data, y.data, x.size) == 0);
    }
    if (!same && (is_variable || !equals_fill(a, {}, {}, b, type))) return i;
  }
  return std::nullopt;
}

std::string position_in(const box& block, std::uint64_t element) {
  std::string out;
  for (std::size_t d = block.size.size(); d-- > 0;) {
    out = fmt::format("{}{}{}", block.origin[d] + element % block.size[d], out.empty() ? "" : ", ", out);
    element /= block.size[d];
  }
  return out;
}

result<> compare(const array& from, const array& made, const progress_fn& now) {
  result<> done;
  if (!same_shape(from.shape(), made.shape())) {
    done = error(errc::corrupt_data,
                 fmt::format("the copy has shape {}, the source {}", to_string(made.shape()), to_string(from.shape())));
  } else {
    done = compare_blocks(from, made, now);
  }
  if (done.ok()) return done;
  return std::move(done).error().note(fmt::format("array '{}'", from.uri()));
}

}  // namespace penstock::inline v0
