#include "codec/tiff/tiff_pictures.h"

#include <fmt/format.h>

#include "base/counted.h"

namespace penstock::inline v0 {

error unreadable_picture(const tiff_picture& picture, std::string_view why) {
  return {errc::unsupported, fmt::format("compression {}{} of {} of {} is not readable {}{}", picture.compression,
                                         picture.name.empty() ? "" : fmt::format(" ({})", picture.name),
                                         counted(picture.samples, "sample"), counted(picture.bits, "bit"),
                                         why.empty() ? "in this build" : "here: ", why)};
}

result<> check_picture_size(const tiff_picture& picture) {
  constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - 1;
  if (picture.rows > kMostBytes || picture.width > kMostBytes || picture.bytes() > kMostBytes) {
    return error(errc::unsupported, fmt::format("a tile or strip of {} x {} pixels in compression {} is not readable",
                                                picture.rows, picture.width, picture.compression));
  }
  return {};
}

}  // namespace penstock::inline v0
