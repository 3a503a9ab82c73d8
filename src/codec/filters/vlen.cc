// vlen-utf8, vlen-bytes and vlen-array: the number of items, then each item's length in bytes and bytes; numbers are
// little-endian 32 bits. A list of items of variable length is each item's length in bytes and bytes. Source: numcodecs
// documentation, "VLenUTF8", "VLenBytes" and "VLenArray"; zarr-extensions codecs/vlen-utf8 and vlen-bytes.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "array/item_swap.h"
#include "array/list_items.h"
#include "array/utf8.h"
#include "base/counted.h"
#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kNumberBytes = 4;

std::uint32_t load_32(const std::byte* at) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = kNumberBytes; i-- > 0;) value = value << 8 | static_cast<std::uint32_t>(at[i]);
  return value;
}

void store_32(std::byte* at, std::uint32_t value) noexcept {
  for (std::size_t i = 0; i < kNumberBytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

variable_item item_at(std::span<const std::byte> items, std::uint64_t i) noexcept {
  variable_item item;
  std::memcpy(&item, items.data() + i * sizeof item, sizeof item);
  return item;
}

/// How vlen-array stores the items of a list.
struct list_items {
  dtype type;                 // of an item, or of the elements of items that are arrays
  std::uint64_t bytes = 0;    // of an item of a fixed size
  std::vector<bool> swapped;  // which of its leaves have the other byte order than this machine; empty: none
  std::shared_ptr<const list_items> inner;  // of items that are lists

  /// Checks the bytes of a list, and converts them between the stored byte order and that of memory, in either
  /// direction. \returns What is wrong; empty: nothing.
  std::string finish(std::byte* at, std::uint64_t length) const {
    if (!type.variable_length()) {
      if (length % bytes != 0) return fmt::format("has {} bytes, not a multiple of {}", length, bytes);
      if (!swapped.empty()) swap_items(at, length / type.item_bytes(), type, swapped);
      return {};
    }
    std::span<const std::byte> left(at, static_cast<std::size_t>(length));
    for (std::uint64_t i = 0; !left.empty(); ++i) {
      const auto item = take_list_item(left);
      if (!item) return fmt::format("ends within item {} of a list", i);
      if (inner) {
        if (std::string wrong = inner->finish(at + (item->data() - at), item->size()); !wrong.empty()) return wrong;
      } else if (type.kind() == dtype_kind::variable_utf8 && !is_utf8(*item)) {
        return fmt::format("has text of {} that is not UTF-8", counted(item->size(), "byte"));
      }
    }
    return {};
  }
};

class vlen_codec final : public byte_codec {
 public:
  vlen_codec(std::string_view name, bool text, std::uint64_t items, std::optional<list_items> list)
      : name_(name), text_(text), items_(items), list_(std::move(list)) {}

  std::string_view name() const override { return name_; }
  std::string describe() const override { return std::string(name_); }
  std::uint64_t max_encoded_bytes(std::uint64_t) const override { return kUnbounded; }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    // Divided, not multiplied: the number of items comes from metadata.
    if (encoded.size() < kNumberBytes || (encoded.size() - kNumberBytes) / kNumberBytes < items_) {
      return error{errc::corrupt_data, fmt::format("{} data has {} bytes, the lengths alone of {} items have more",
                                                   name_, encoded.size(), items_)};
    }
    if (const std::uint32_t says = load_32(encoded.data()); says != items_) {
      return error{errc::corrupt_data,
                   fmt::format("{} data has {} items, the chunk's shape needs {}", name_, says, items_)};
    }
    if (out.size() / sizeof(variable_item) < items_) {
      scratch.out_of_room = true;
      return error{errc::corrupt_data, fmt::format("{} items need more than {} bytes", name_, out.size())};
    }
    std::uint64_t bytes = encoded.size() - kNumberBytes * (items_ + 1);
    const worker_scratch::contexts& known = scratch.libraries();
    if (!known.wanted_items.empty()) {
      PENSTOCK_ASSIGN(bytes, wanted_bytes(encoded, known));
    }
    PENSTOCK_ASSIGN(const std::span<std::byte> room, scratch.items().allocate(bytes));
    const std::byte* at = encoded.data() + kNumberBytes;
    const std::byte* const end = encoded.data() + encoded.size();
    std::byte* to = room.data();
    for (std::uint64_t i = 0; i < items_; ++i) {
      if (static_cast<std::size_t>(end - at) < kNumberBytes) return ends_early(i);
      const std::uint32_t length = load_32(at);
      at += kNumberBytes;
      // The lengths of the following items need space too, so `room` cannot be too small.
      if (static_cast<std::uint64_t>(end - at) < length + kNumberBytes * (items_ - i - 1)) return ends_early(i);
      if (!known.wants_item(i)) {
        const variable_item none;
        std::memcpy(out.data() + i * sizeof none, &none, sizeof none);
        at += length;
        continue;
      }
      if (length != 0) std::memcpy(to, at, length);
      if (text_ && !is_utf8({to, length})) {
        return error{errc::corrupt_data,
                     fmt::format("{} item {} of {} is not UTF-8", name_, i, counted(length, "byte"))};
      }
      if (list_) PENSTOCK_TRY(finish_list(to, length, i));
      const variable_item item{length == 0 ? nullptr : to, length};
      std::memcpy(out.data() + i * sizeof item, &item, sizeof item);
      to += length;
      at += length;
    }
    return std::span<const std::byte>(out.data(), items_ * sizeof(variable_item));
  }

  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    PENSTOCK_ASSIGN(const std::uint64_t bytes, encoded_bytes(decoded));
    if (out.size() < bytes) {
      return error{errc::invalid_argument,
                   fmt::format("{} needs {} bytes, the output has room for {}", name_, bytes, out.size())};
    }
    std::byte* to = out.data();
    store_32(to, static_cast<std::uint32_t>(items_));
    to += kNumberBytes;
    for (std::uint64_t i = 0; i < items_; ++i) {
      const variable_item item = item_at(decoded, i);
      store_32(to, static_cast<std::uint32_t>(item.size));
      to += kNumberBytes;
      if (item.size != 0) std::memcpy(to, item.data, item.size);
      if (list_) PENSTOCK_TRY(finish_list(to, item.size, i));
      to += item.size;
    }
    return bytes;
  }

  result<std::span<const std::byte>> encode_growing(std::span<const std::byte> decoded, buffer& room,
                                                    worker_scratch& scratch) const override {
    PENSTOCK_ASSIGN(const std::uint64_t bytes, encoded_bytes(decoded));
    PENSTOCK_ASSIGN(const std::span<std::byte> out, room.reserve(bytes));
    PENSTOCK_TRY(encode(decoded, out, scratch));
    return std::span<const std::byte>(out);
  }

 private:
  result<> finish_list(std::byte* at, std::uint64_t bytes, std::uint64_t i) const {
    const std::string wrong = list_->finish(at, bytes);
    if (wrong.empty()) return {};
    return error{errc::corrupt_data, fmt::format("{} item {} {}", name_, i, wrong)};
  }

  // The sum of the lengths of the items that are needed.
  result<std::uint64_t> wanted_bytes(std::span<const std::byte> encoded, const worker_scratch::contexts& known) const {
    std::uint64_t out = 0, at = kNumberBytes;
    for (std::uint64_t i = 0; i < items_; ++i) {
      if (encoded.size() - at < kNumberBytes) return ends_early(i);
      const std::uint32_t length = load_32(encoded.data() + at);
      at += kNumberBytes;
      if (encoded.size() - at < length) return ends_early(i);
      at += length;
      if (known.wants_item(i)) out += length;
    }
    return out;
  }

  error ends_early(std::uint64_t i) const {
    return {errc::corrupt_data, fmt::format("{} data ends within item {} of {}", name_, i, items_)};
  }

  result<std::uint64_t> encoded_bytes(std::span<const std::byte> decoded) const {
    if (decoded.size() != items_ * sizeof(variable_item)) {
      return error{errc::invalid_argument,
                   fmt::format("{} takes {} items, it got {} bytes", name_, items_, decoded.size())};
    }
    std::uint64_t bytes = kNumberBytes * (items_ + 1);
    for (std::uint64_t i = 0; i < items_; ++i) {
      const std::uint64_t size = item_at(decoded, i).size;
      if (size > std::numeric_limits<std::uint32_t>::max()) {
        return error{errc::invalid_argument, fmt::format("{} cannot hold an item of {} bytes", name_, size)};
      }
      bytes += size;
    }
    return bytes;
  }

  std::string_view name_;
  bool text_;
  std::uint64_t items_;
  std::optional<list_items> list_;
};

/// Adds the byte orders of a type's leaves: `stored` is a type string, or a list of fields as NumPy's descr has them.
void add_orders(const json& stored, std::vector<bool>& to) {
  if (const std::string* const text = stored.as_string())
    to.push_back(!text->empty() && (text->front() == '<' || text->front() == '>') &&
                 (text->front() == '>') != kNativeBig);
  if (stored.as_array() == nullptr) return;
  for (const json& field : *stored.as_array()) {
    const json::array_t* const parts = field.as_array();
    const bool is_gap = parts != nullptr && !parts->empty() && parts->front() == json("");
    if (parts != nullptr && parts->size() > 1 && !is_gap) add_orders((*parts)[1], to);
  }
}

// The recursion is as deep as lists are nested, which `dtype` limits.
result<list_items> items_in(const json& stored, const dtype& list) {
  const auto wrong = [&] {
    return error{errc::corrupt_data, fmt::format("codec 'vlen-array' has dtype {}, the array has lists of {}",
                                                 stored.dump(), list.item()->name())};
  };
  list_items out;
  out.type = *list.item();
  out.bytes = list.list_item_bytes();
  if (out.type.variable_length()) {
    const json* const inner = stored.find("dtype");
    if (out.type.item() == nullptr) return out;
    if (inner == nullptr) return wrong();
    PENSTOCK_ASSIGN(list_items made, items_in(*inner, out.type));
    out.inner = std::make_shared<const list_items>(std::move(made));
    return out;
  }
  // Of arrays, the pair of the type of their elements and their shape.
  const json::array_t* const parts = list.item_shape().empty() ? nullptr : stored.as_array();
  if (!list.item_shape().empty() && (parts == nullptr || parts->size() != 2)) return wrong();
  add_orders(parts == nullptr ? stored : parts->front(), out.swapped);
  if (out.swapped.size() != leaf_count(out.type)) return wrong();
  if (std::find(out.swapped.begin(), out.swapped.end(), true) == out.swapped.end()) out.swapped.clear();
  return out;
}

result<std::optional<list_items>> items_of(const codec_config& config, const dtype& type) {
  const json* const stored = config.configuration.find("dtype");
  if (type.item() == nullptr || stored == nullptr) return std::optional<list_items>();
  PENSTOCK_ASSIGN(list_items made, items_in(*stored, type));
  return std::optional(std::move(made));
}

result<compiled_codec> make(std::string_view name, dtype_kind kind, const codec_config& config,
                            const stage_type& input) {
  if (kind == dtype_kind::variable_list)
    PENSTOCK_TRY(codec_members::of(config, {"dtype"}));
  else
    PENSTOCK_TRY(codec_members::of(config, {}));
  if (!input.is_array || input.type.kind() != kind) {
    return error{errc::unsupported, fmt::format("codec '{}' does not support {}", name,
                                                input.is_array ? input.type.name() : std::string("bytes"))};
  }
  const std::uint64_t items = input.bytes() / sizeof(variable_item);
  if (items > std::numeric_limits<std::uint32_t>::max()) {
    return error{errc::unsupported, fmt::format("codec '{}' holds less than 2^32 items, a chunk has {}", name, items)};
  }
  PENSTOCK_ASSIGN(auto list, items_of(config, input.type));
  return compiled_codec{std::make_shared<vlen_codec>(name, kind == dtype_kind::variable_utf8, items, std::move(list)),
                        stage_type::bytes_of(input.type, kUnbounded, false)};
}

}  // namespace

result<compiled_codec> make_vlen_utf8_codec(const codec_config& config, const stage_type& input) {
  return make("vlen-utf8", dtype_kind::variable_utf8, config, input);
}

result<compiled_codec> make_vlen_bytes_codec(const codec_config& config, const stage_type& input) {
  return make("vlen-bytes", dtype_kind::variable_bytes, config, input);
}

result<compiled_codec> make_vlen_array_codec(const codec_config& config, const stage_type& input) {
  return make("vlen-array", dtype_kind::variable_list, config, input);
}

}  // namespace penstock::inline v0
