#include "format/parquet/thrift_reader.h"

namespace penstock::inline v0 {

std::uint8_t thrift_reader::byte() noexcept {
  if (failed_ || at_ >= from_.size()) {
    fail();
    return 0;
  }
  return static_cast<std::uint8_t>(from_[at_++]);
}

std::uint64_t thrift_reader::varint() noexcept {
  std::uint64_t out = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint64_t next = byte();
    out |= (next & 0x7F) << shift;
    if (next < 0x80) return out;
  }
  fail();
  return 0;
}

thrift_reader::field thrift_reader::header(std::int32_t& id) noexcept {
  const std::uint8_t head = byte();
  field out;
  out.kind = static_cast<type>(head & 0x0F);
  if (failed_ || out.kind == type::stop) return {};
  if (out.kind > type::structure) {
    fail();
    return {};
  }
  if (head >> 4 != 0)
    id += head >> 4;
  else
    id = static_cast<std::int32_t>(integer(type::int16));
  if (id < 0 || id > 0x7FFF) fail();
  out.id = id;
  return failed_ ? field() : out;
}

std::uint64_t thrift_reader::list_header(const field& of, type& element) noexcept {
  if (of.kind != type::list && of.kind != type::set) {
    fail();
    return 0;
  }
  const std::uint8_t head = byte();
  element = static_cast<type>(head & 0x0F);
  const std::uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
  if (count == 0) return 0;  // a list of any type: some writers omit it
  // Each element has at least one byte.
  if (element == type::stop || element > type::structure || count > from_.size() - at_) fail();
  return failed_ ? 0 : count;
}

std::int64_t thrift_reader::integer(type kind) noexcept {
  if (kind == type::int8) return static_cast<std::int8_t>(byte());
  if (kind != type::int16 && kind != type::int32 && kind != type::int64) {
    fail();
    return 0;
  }
  const std::uint64_t zigzag = varint();
  return static_cast<std::int64_t>(zigzag >> 1 ^ (~(zigzag & 1) + 1));
}

bool thrift_reader::boolean(const field& of) noexcept {
  if (of.kind != type::true_value && of.kind != type::false_value) fail();
  return of.kind == type::true_value;
}

std::string_view thrift_reader::binary(type kind) noexcept {
  const std::uint64_t size = kind == type::binary ? varint() : (fail(), 0);
  if (failed_ || size > from_.size() - at_) {
    fail();
    return {};
  }
  const std::string_view out(reinterpret_cast<const char*>(from_.data() + at_), static_cast<std::size_t>(size));
  at_ += static_cast<std::size_t>(size);
  return out;
}

void thrift_reader::skip(type kind) {
  switch (kind) {
    case type::true_value:
    case type::false_value:
      return;  // the field's header is the value
    case type::int8:
      byte();
      return;
    case type::int16:
    case type::int32:
    case type::int64:
      varint();
      return;
    case type::real:
      for (int i = 0; i < 8; ++i) byte();
      return;
    case type::binary:
      binary(kind);
      return;
    case type::list:
    case type::set:
      if (++depth_ > kMaxDepth) fail();
      list({0, kind}, [this](type element) {
        if (element == type::true_value || element == type::false_value)
          byte();  // each element of a list has a byte
        else
          skip(element);
      });
      --depth_;
      return;
    case type::structure:
      structure([this](const field& each) { skip(each.kind); });
      return;
    default:
      fail();  // maps: Parquet's metadata have none
  }
}

}  // namespace penstock::inline v0
