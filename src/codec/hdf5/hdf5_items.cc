// HDF5's type conversions of stored items: integers that use some of their bits, text with other padding.

#include <cstring>
#include <limits>
#include <vector>

#include "codec/codec_members.h"
#include "codec/decode_only.h"

namespace penstock::inline v0 {
namespace {

constexpr std::int64_t kMostItemBytes = std::int64_t{1} << 28;

/// Items of one size whose stored form is converted to NumPy's.
class hdf5_item_codec : public decode_only_codec {
 public:
  hdf5_item_codec(std::string_view name, std::string description, std::size_t item)
      : decode_only_codec(name, std::move(description)), item_(item) {}

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const final {
    PENSTOCK_ASSIGN(const auto room, take(out, encoded.size(), scratch));
    if (room.size() % item_ != 0) {
      return damaged(fmt::format("{} bytes are not a multiple of an item's {}", room.size(), item_));
    }
    if (!room.empty()) std::memcpy(room.data(), encoded.data(), room.size());
    for (std::size_t at = 0; at < room.size(); at += item_) convert(room.data() + at);
    return std::span<const std::byte>(room);
  }

 protected:
  virtual void convert(std::byte* item) const noexcept = 0;
  const std::size_t item_;
};

/// `precision` bits from bit `offset` of an integer.
class bits_codec final : public hdf5_item_codec {
 public:
  bits_codec(std::size_t item, unsigned precision, unsigned offset, bool is_signed, bool big_endian)
      : hdf5_item_codec("hdf5.bits", fmt::format("hdf5.bits({} from {})", precision, offset), item),
        precision_(precision),
        offset_(offset),
        signed_(is_signed),
        big_endian_(big_endian) {}

 private:
  void convert(std::byte* item) const noexcept override {
    std::uint64_t value = big_endian_ ? load_big({item, item_}) : load_little({item, item_});
    value = value >> offset_ & (~std::uint64_t{0} >> (64 - precision_));
    if (signed_ && (value >> (precision_ - 1) & 1) != 0 && precision_ < 64) value |= ~std::uint64_t{0} << precision_;
    for (std::size_t i = 0; i < item_; ++i) {
      item[big_endian_ ? item_ - 1 - i : i] = static_cast<std::byte>(value >> (8 * i));
    }
  }

  unsigned precision_, offset_;
  bool signed_, big_endian_;
};

/// Text within an item: bytes after its end are cleared, because NumPy pads with zeros.
struct text_field {
  std::size_t offset = 0, count = 0, size = 0;
  bool spaces = false;  // padded with spaces at the end; else it ends with a zero
};

class string_codec final : public hdf5_item_codec {
 public:
  string_codec(std::size_t item, std::vector<text_field> fields)
      : hdf5_item_codec("hdf5.string", "hdf5.string", item), fields_(std::move(fields)) {}

 private:
  void convert(std::byte* item) const noexcept override {
    for (const text_field& field : fields_) {
      for (std::size_t i = 0; i < field.count; ++i) {
        std::byte* const text = item + field.offset + i * field.size;
        std::size_t end = field.size;
        if (field.spaces) {
          while (end != 0 && text[end - 1] == std::byte{' '}) --end;
        } else if (const void* const zero = std::memchr(text, 0, field.size)) {
          end = static_cast<std::size_t>(static_cast<const std::byte*>(zero) - text);
        }
        std::memset(text + end, 0, field.size - end);
      }
    }
  }

  std::vector<text_field> fields_;
};

}  // namespace

result<compiled_codec> make_hdf5_bits_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members,
                  codec_members::of(config, {"elementsize", "precision", "offset", "signed", "endian"}));
  PENSTOCK_ASSIGN(const std::int64_t item, members.integer("elementsize", 1, 8));
  PENSTOCK_ASSIGN(const std::int64_t precision, members.integer("precision", 1, 8 * item));
  PENSTOCK_ASSIGN(const std::int64_t offset, members.integer("offset", 0, 8 * item - precision, 0));
  PENSTOCK_ASSIGN(const bool is_signed, members.boolean("signed", false));
  constexpr std::string_view kOrders[] = {"little", "big"};
  PENSTOCK_ASSIGN(const std::size_t order, members.choice("endian", kOrders, 0));
  return compressed_stage(std::make_shared<bits_codec>(static_cast<std::size_t>(item), static_cast<unsigned>(precision),
                                                       static_cast<unsigned>(offset), is_signed, order == 1),
                          input);
}

// `fields`: for each text [offset, count, size, padded with spaces: 0 or 1].
result<compiled_codec> make_hdf5_string_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"elementsize", "fields"}));
  PENSTOCK_ASSIGN(const std::int64_t item, members.integer("elementsize", 1, kMostItemBytes));
  PENSTOCK_ASSIGN(const json::array_t* const list, members.list("fields"));
  std::vector<text_field> fields;
  std::uint64_t bytes = 0;  // of all texts
  for (const json& each : *list) {
    const json::array_t* const parts = each.as_array();
    std::uint64_t numbers[4] = {};
    bool good = parts != nullptr && parts->size() == 4;
    for (std::size_t i = 0; good && i < 4; ++i) {
      good = (*parts)[i].get(numbers[i]) && numbers[i] <= static_cast<std::uint64_t>(item);
    }
    const auto [offset, count, size, spaces] = numbers;
    if (!good || spaces > 1 || (size != 0 && count > (static_cast<std::uint64_t>(item) - offset) / size)) {
      return error{errc::corrupt_data, "codec 'hdf5.string': a field exceeds the item"};
    }
    if (size == 0) continue;
    bytes += count * size;
    if (bytes > static_cast<std::uint64_t>(item))
      return error{errc::corrupt_data, "codec 'hdf5.string': fields overlap"};
    fields.push_back({static_cast<std::size_t>(offset), static_cast<std::size_t>(count), static_cast<std::size_t>(size),
                      spaces == 1});
  }
  return compressed_stage(std::make_shared<string_codec>(static_cast<std::size_t>(item), std::move(fields)), input);
}

}  // namespace penstock::inline v0
