// Parquet and Arrow in the registry: the library recognises such files, and Python opens them.
#include "driver/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "driver/drivers.h"

namespace penstock::inline v0 {
namespace {

/// A little-endian number of a flatbuffer. Returns nullopt if it is not among the bytes.
template <class T>
std::optional<T> number_at(std::span<const std::byte> from, std::int64_t at) noexcept {
  if (at < 0 || from.size() < sizeof(T) || static_cast<std::uint64_t>(at) > from.size() - sizeof(T)) return {};
  std::uint64_t value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) value = value << 8 | std::to_integer<unsigned>(from[at + i]);
  return static_cast<T>(value);
}

/// A table of a flatbuffer.
class flat_table {
 public:
  static std::optional<flat_table> at(std::span<const std::byte> data, std::int64_t place) noexcept {
    const auto back = number_at<std::int32_t>(data, place);
    if (!back) return {};
    return flat_table(data, place, place - *back);
  }
  std::int64_t place() const noexcept { return place_; }
  std::int64_t fields() const noexcept { return fields_; }
  /// The position of a field; 0 if the table does not have it. Returns nullopt if it is outside of the bytes.
  std::optional<std::int64_t> field(unsigned number) const noexcept {
    const std::int64_t entry = 4 + 2 * std::int64_t{number};
    const auto size = number_at<std::uint16_t>(data_, fields_);
    if (!size) return {};
    if (entry >= *size) return 0;
    const auto offset = number_at<std::uint16_t>(data_, fields_ + entry);
    if (!offset) return {};
    return *offset == 0 ? 0 : place_ + *offset;
  }
  /// Zero if the table does not have the field.
  template <class T>
  std::optional<T> value(unsigned number) const noexcept {
    const auto found = field(number);
    if (!found) return {};
    return *found == 0 ? T{} : number_at<T>(data_, *found);
  }

 private:
  flat_table(std::span<const std::byte> data, std::int64_t place, std::int64_t fields) noexcept
      : data_(data), place_(place), fields_(fields) {}
  std::span<const std::byte> data_;
  std::int64_t place_, fields_;
};

/// True if bytes begin as a stream of Arrow before 0.15 does: the length of a message, and that of a schema.
/// Source: Arrow's columnar format, "Encapsulated message format", and its Message.fbs.
bool begins_old_stream(std::span<const std::byte> begin) noexcept {
  constexpr std::int32_t kLeastMessage = 16, kMostMessage = 1 << 24;
  constexpr std::int16_t kNewestVersion = 4;  // of MetadataVersion: V5
  constexpr std::uint8_t kSchema = 1;         // of MessageHeader
  const auto length = number_at<std::int32_t>(begin, 0);
  if (!length || *length < kLeastMessage || *length >= kMostMessage || *length % 4 != 0) return false;
  const std::span<const std::byte> message = begin.subspan(4);
  const auto start = number_at<std::uint32_t>(message, 0);
  const auto root = start ? flat_table::at(message, *start) : std::nullopt;
  // The message contains its tables: other text that happens to begin in this way does not.
  const auto is_inside = [&](std::int64_t place) { return place >= 4 && place < *length; };
  if (!root || !is_inside(root->place()) || !is_inside(root->fields())) return false;
  const auto version = root->value<std::int16_t>(0);
  const auto kind = root->value<std::uint8_t>(1);
  const auto header = root->field(2);
  if (!version || *version > kNewestVersion || !kind || *kind != kSchema || !header || *header == 0) return false;
  const auto offset = number_at<std::uint32_t>(message, *header);
  const auto schema = offset ? flat_table::at(message, *header + *offset) : std::nullopt;
  return schema && is_inside(schema->place());
}

class table_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "table"; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 4> kEndings = {"parquet", "parq", "arrow", "feather"};
    return kEndings;
  }
  std::string_view written_by() const noexcept override { return "penstock.save_shards in Python"; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return kind_of_table(begin) != table_kind::none;
  }
  result<node> open(const location& at, const open_options&) const override {
    return error(errc::unsupported,
                 fmt::format("'{}' is a Parquet or Arrow file, which the Python package opens", at.uri));
  }
};

}  // namespace

table_kind kind_of_table(std::span<const std::byte> begin) noexcept {
  using namespace std::string_view_literals;
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (text.starts_with("PAR1")) return table_kind::parquet;
  if (text.starts_with("ARROW1\0\0"sv)) return table_kind::arrow_file;
  if (text.starts_with("\xff\xff\xff\xff") || begins_old_stream(begin)) return table_kind::arrow_stream;
  return table_kind::none;
}

const format_driver& table_driver() noexcept {
  static const table_format kDriver;
  return kDriver;
}

}  // namespace penstock::inline v0
