// Any bytes as the messages of an HDF5 object header: a byte for the type, two for the length, the body.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "format/hdf5/hdf5_attributes.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_group.h"
#include "format/hdf5/hdf5_values.h"

namespace {

using namespace penstock;

/// A file that consists of a superblock of version 2.
class empty_file final : public hdf5_source {
 public:
  empty_file() {
    constexpr unsigned char kHead[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n', 2, 8, 8, 0};
    for (const unsigned char each : kHead) bytes_.push_back(std::byte{each});
    bytes_.resize(512);
  }
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override {
    return std::span<const std::byte>(bytes_).subspan(offset, length);
  }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
void check(const result<T>& parsed) {
  if (!parsed.ok() && parsed.error().code() != errc::corrupt_data && parsed.error().code() != errc::unsupported)
    __builtin_trap();
}

std::vector<hdf5_message> header_of(std::span<const std::byte> bytes) {
  std::vector<hdf5_message> out;
  hdf5_cursor cursor(bytes);
  while (cursor.left() >= 3 && out.size() < 64) {
    hdf5_message each;
    each.type = static_cast<std::uint16_t>(cursor.number(1));
    const auto body = cursor.bytes(std::min<std::uint64_t>(cursor.number(2), cursor.left()));
    each.body.assign(body.begin(), body.end());
    out.push_back(std::move(each));
  }
  return out;
}

void look(hdf5_file file, const std::vector<hdf5_message>& header) {
  check(parse_hdf5_shape(file, header));
  check(parse_hdf5_layout(file, header));
  check(parse_hdf5_fill(header));
  check(parse_hdf5_filters(header));
  check(read_hdf5_external(file, header));
  check(list_hdf5_links(file, header));
  if (const hdf5_message* const type = find_message(header, hdf5_message::datatype); type != nullptr) {
    hdf5_cursor cursor(type->body);
    const auto parsed = parse_hdf5_type(cursor);
    check(parsed);
    if (parsed.ok()) static_cast<void>(hdf5_type_json(*parsed));
  }
  const auto attributes = list_hdf5_attributes(file, header);
  check(attributes);
  if (!attributes.ok()) return;
  hdf5_global_heap heap(file);
  for (const hdf5_attribute& each : *attributes) check(hdf5_attribute_json(file, heap, each));
}

}  // namespace

extern "C" int run_hdf5_messages(const std::uint8_t* data, std::size_t size) {
  empty_file source;
  const auto file = hdf5_file::open(source, hdf5_checksums::ignored);
  if (!file.ok()) __builtin_trap();
  look(*file, header_of({reinterpret_cast<const std::byte*>(data), size}));
  return 0;
}
