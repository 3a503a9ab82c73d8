#include "npy.h"

#include <fmt/format.h>

namespace penstock::inline v0::cli {

result<std::string> npy_header(dtype type, const extents& shape) {
  const std::string descr = type.numpy_typestr();
  if (descr.empty()) {
    return error(errc::unsupported,
                 fmt::format("a .npy file cannot hold {}; write the bare values to a .bin file", type.name()));
  }
  const std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, to_string(shape));
  constexpr std::size_t kPreamble = 10, kAlignment = 64;  // magic, version, length; the alignment for readers with mmap
  const std::size_t total = (kPreamble + dictionary.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t length = total - kPreamble;  // 32 dimensions of 20 digits stay far below 65,536

  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  header += dictionary;
  header.resize(total - 1, ' ');
  header += '\n';
  return header;
}

}  // namespace penstock::inline v0::cli
