// Any bytes as a DEFLATE stream: the decoded head equals the beginning of the whole. (libdeflate accepts symbols that
// RFC 1951 does not have.)

#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "store/inflate_head.h"

extern "C" int run_inflate_head(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> encoded = std::as_bytes(std::span(data, size));
  constexpr std::size_t kMost = std::size_t{1} << 16;
  std::vector<std::byte> whole(kMost);
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> with(
      libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  std::size_t made = 0;
  const bool good =
      libdeflate_deflate_decompress(with.get(), data, size, whole.data(), whole.size(), &made) == LIBDEFLATE_SUCCESS;
  for (const std::size_t head : {std::size_t{1}, std::size_t{128}, std::size_t{5000}, good ? made : kMost}) {
    std::vector<std::byte> out(head);
    const bool filled = penstock::inflate_head(encoded, out);
    if (!good || !filled) continue;
    if (head > made || !std::equal(out.begin(), out.end(), whole.begin())) std::abort();
  }
  return 0;
}
