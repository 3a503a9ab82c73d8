#include "format/tiff/tiff_file_view.h"

#include <utility>

namespace penstock::inline v0 {

void tiff_file_view::add(std::uint64_t offset, std::vector<std::byte> bytes) {
  pieces_.push_back({offset, std::move(bytes)});
}

const std::byte* tiff_file_view::find(std::uint64_t offset, std::uint64_t length) const noexcept {
  // The last piece is the likeliest.
  for (auto each = pieces_.rbegin(); each != pieces_.rend(); ++each) {
    if (offset >= each->offset && offset - each->offset <= each->bytes.size() &&
        length <= each->bytes.size() - (offset - each->offset)) {
      return each->bytes.data() + (offset - each->offset);
    }
  }
  return nullptr;
}

}  // namespace penstock::inline v0
