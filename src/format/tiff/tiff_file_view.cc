#include "format/tiff/tiff_file_view.h"

#include <utility>

namespace penstock::inline v0 {
namespace {

/// More than a parser requests at a time.
constexpr std::size_t kPieces = 8;
constexpr std::size_t kMostPieces = 64;
constexpr std::uint64_t kHeldBytes = std::uint64_t{32} << 20;

}  // namespace

void tiff_file_view::add(std::uint64_t offset, std::vector<std::byte> bytes) {
  if (!pieces_.empty()) held_ += bytes.size();
  pieces_.push_back({offset, std::move(bytes)});
  // A hostile chain of directories can refer to more ranges of a file than fit into memory.
  while (pieces_.size() > 1 + kPieces && (held_ > kHeldBytes || pieces_.size() > kMostPieces)) {
    held_ -= pieces_[1].bytes.size();
    pieces_.erase(pieces_.begin() + 1);
  }
}

tiff_file_view tiff_file_view::first(std::uint64_t most_bytes) const {
  tiff_file_view out;
  out.size_ = size_;
  for (const piece& each : pieces_) {
    if (each.bytes.size() > most_bytes) break;
    most_bytes -= each.bytes.size();
    out.add(each.offset, each.bytes);
  }
  return out;
}

const std::byte* tiff_file_view::find(std::uint64_t offset, std::uint64_t length) const noexcept {
  // The last piece is the most likely one.
  for (auto each = pieces_.rbegin(); each != pieces_.rend(); ++each) {
    if (offset >= each->offset && offset - each->offset <= each->bytes.size() &&
        length <= each->bytes.size() - (offset - each->offset)) {
      return each->bytes.data() + (offset - each->offset);
    }
  }
  return nullptr;
}

}  // namespace penstock::inline v0
