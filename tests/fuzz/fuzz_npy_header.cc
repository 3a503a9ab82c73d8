// Any bytes as the header of a .npy file: refused, or a header that is equal after it was written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "format/npy/npy_header.h"

extern "C" int run_npy_header(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto header = parse_npy_header(std::as_bytes(std::span(data, size)));
  if (!header.ok()) {
    if (header.error().code() != errc::corrupt_data && header.error().code() != errc::unsupported) std::abort();
    return 0;
  }
  if (header->data_offset > size) std::abort();
  const std::string* type = header->descr.as_string();
  if (type == nullptr || type->find_first_not_of("<>|=biufcSUVmM0123456789[]smhDY") != std::string::npos) return 0;
  const std::string again = write_npy_header("'" + *type + "'", header->order, header->shape);
  const auto second = parse_npy_header(std::as_bytes(std::span(again)));
  if (!second.ok() || !(second->descr == header->descr) || !(second->shape == header->shape) ||
      second->order != header->order || second->data_offset != again.size())
    std::abort();
  return 0;
}
