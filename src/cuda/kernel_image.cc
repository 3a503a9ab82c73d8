#include "cuda/kernel_image.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "cuda/decode/fatbin.h"

namespace penstock::inline v0::cuda {
namespace {

// A fatbin begins with its magic number, its version, the size of this header, and the size of the rest. The driver
// trusts that size, so a truncated file must be detected here.
bool is_whole_fatbin(std::span<const std::byte> bytes) {
  constexpr std::uint32_t kMagic = 0xba55ed50;
  std::uint32_t magic = 0;
  std::uint16_t header = 0;
  std::uint64_t rest = 0;
  if (bytes.size() < 16) return false;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  std::memcpy(&header, bytes.data() + 6, sizeof header);
  std::memcpy(&rest, bytes.data() + 8, sizeof rest);
  return magic == kMagic && header >= 16 && header <= bytes.size() && rest == bytes.size() - header;
}

}  // namespace

result<kernel_image> kernel_image::load() {
  kernel_image out;
  const char* const named = std::getenv("PENSTOCK_CUDA_KERNELS");
  if (named == nullptr || *named == '\0') {
    out.bytes_ = device::fatbin();
    if (out.bytes_.empty())
      return error(errc::unsupported, "this build of Penstock has no device code: it was built without nvcc");
    return out;
  }
  out.file_ = named;
  const auto refuse = [&](std::string_view why) {
    return error(errc::invalid_argument, fmt::format("PENSTOCK_CUDA_KERNELS: '{}' {}", out.file_, why));
  };
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(out.file_, failed);
  if (failed) return refuse("cannot be read: " + failed.message());
  out.content_.resize(size);
  std::ifstream file(out.file_, std::ios::binary);
  file.read(reinterpret_cast<char*>(out.content_.data()), static_cast<std::streamsize>(size));
  if (!file) return refuse("cannot be read");
  if (!is_whole_fatbin(out.content_)) return refuse("is not a whole fatbin, as `nvcc -fatbin` writes it");
  out.bytes_ = out.content_;
  return out;
}

}  // namespace penstock::inline v0::cuda
