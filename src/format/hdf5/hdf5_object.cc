#include "format/hdf5/hdf5_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace penstock::inline v0 {
namespace {

/// More than any writer produces.
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMostBlocks = 4096, kMostMessages = std::size_t{1} << 17;
constexpr unsigned kSharedFlag = 2, kMustBeKnownFlag = 0x80;
/// Of the types up to kLastKnownType, kBogusType occurs only in tests of libhdf5.
constexpr std::uint16_t kLastKnownType = 0x18, kBogusType = 0x9;

struct block_place {
  std::uint64_t address, length;
};

/// Reads the blocks of one header. A block names the next one.
class object_reader {
 public:
  explicit object_reader(hdf5_file& file) noexcept : file_(file) {}

  result<std::vector<hdf5_message>> read(std::uint64_t address) {
    constexpr std::uint64_t kLikely = 1024;
    PENSTOCK_ASSIGN(const auto begin, file_.begin_of(address, 4, kLikely));
    const bool second = hdf5_cursor(begin).is("OHDR");
    if (second) {
      PENSTOCK_TRY(read_second(address));
    } else {
      PENSTOCK_TRY(read_first(address));
    }
    for (std::size_t i = 0; i < more_.size(); ++i) {
      auto taken = take_more(more_[i], second);
      if (!taken.ok() && !file_.waiting()) return std::move(taken).error();
    }
    return std::move(out_);
  }

 private:
  result<> take_more(const block_place& next, bool second) {
    if (second) {
      PENSTOCK_ASSIGN(const auto block, file_.checked(next.address, next.length, "an object header"));
      hdf5_cursor cursor(block.first(block.size() - kHdf5ChecksumBytes));
      if (!cursor.is("OCHK")) return hdf5_damaged(fmt::format("no object header continues at {}", next.address));
      return take_second(cursor);
    }
    PENSTOCK_ASSIGN(const auto block, file_.at(next.address, next.length));
    return take_first(hdf5_cursor(block));
  }

  result<> read_first(std::uint64_t address) {
    constexpr std::uint64_t kPrefix = 16;
    PENSTOCK_ASSIGN(const auto prefix, file_.at(address, kPrefix));
    hdf5_cursor cursor(prefix);
    if (cursor.number(1) != 1) return hdf5_damaged(fmt::format("no object header is at address {}", address));
    cursor.skip(7);  // reserved, number of messages, references
    const std::uint64_t length = cursor.number(4);
    PENSTOCK_TRY(count(length));
    PENSTOCK_ASSIGN(const auto block, file_.at(address + kPrefix, length));
    return take_first(hdf5_cursor(block));
  }

  result<> read_second(std::uint64_t address) {
    constexpr std::uint64_t kLongestPrefix = 4 + 1 + 1 + 16 + 4 + 8;
    PENSTOCK_ASSIGN(const auto prefix, file_.at(address, std::min(kLongestPrefix, rest_of_file(address))));
    hdf5_cursor cursor(prefix);
    cursor.skip(4);
    if (cursor.number(1) != 2) return hdf5_unknown("an object header of an unknown version");
    const std::uint64_t flags = cursor.number(1);
    if ((flags & 0x20) != 0) cursor.skip(16);  // times
    if ((flags & 0x10) != 0) cursor.skip(4);   // how attributes are stored
    ordered_ = (flags & 0x04) != 0;
    const std::uint64_t length = cursor.number(std::size_t{1} << (flags & 3));
    if (!cursor.ok()) return hdf5_damaged(fmt::format("the object header at address {} is truncated", address));
    const std::uint64_t before = prefix.size() - cursor.left();
    PENSTOCK_TRY(count(length));
    PENSTOCK_ASSIGN(const auto block, file_.checked(address, before + length + kHdf5ChecksumBytes, "an object header"));
    return take_second(hdf5_cursor(block.subspan(before, static_cast<std::size_t>(length))));
  }

  result<> take_first(hdf5_cursor cursor) {
    constexpr std::size_t kPrefix = 8;
    while (cursor.left() >= kPrefix) {
      const auto type = static_cast<std::uint16_t>(cursor.number(2));
      const std::uint64_t length = cursor.number(2);
      const std::uint64_t flags = cursor.number(1);
      cursor.skip(3);
      PENSTOCK_TRY(take(type, flags, 0, cursor.bytes(length), cursor));
    }
    return {};
  }

  result<> take_second(hdf5_cursor cursor) {
    const std::size_t prefix = ordered_ ? 6 : 4;
    while (cursor.left() >= prefix) {
      const auto type = static_cast<std::uint16_t>(cursor.number(1));
      const std::uint64_t length = cursor.number(2);
      const std::uint64_t flags = cursor.number(1);
      const std::uint64_t order = ordered_ ? cursor.number(2) : 0;
      PENSTOCK_TRY(take(type, flags, order, cursor.bytes(length), cursor));
    }
    return {};
  }

  result<> take(std::uint16_t type, std::uint64_t flags, std::uint64_t order, std::span<const std::byte> body,
                const hdf5_cursor& from) {
    if (!from.ok()) return hdf5_damaged(fmt::format("a message of type {} exceeds its object header", type));
    if (type == 0) return {};
    if ((type > kLastKnownType || type == kBogusType) && (flags & kMustBeKnownFlag) != 0)
      return hdf5_unknown(fmt::format("an object with a message of type {}, which readers must support", type));
    if (type != hdf5_message::continuation) {
      if (out_.size() == kMostMessages) return hdf5_damaged("an object header has too many messages");
      out_.push_back({type, (flags & kSharedFlag) != 0, {body.begin(), body.end()}, order, ordered_});
      return {};
    }
    hdf5_cursor cursor(body);
    const block_place next{cursor.number(file_.offset_bytes()), cursor.number(file_.length_bytes())};
    if (!cursor.ok()) return hdf5_damaged("an object header's continuation is truncated");
    if (more_.size() == kMostBlocks) return hdf5_damaged("an object header has too many continuations");
    PENSTOCK_TRY(count(next.length));
    more_.push_back(next);
    return {};
  }

  result<> count(std::uint64_t length) {
    if (length > kMostHeaderBytes - bytes_) return hdf5_damaged("an object header is too long");
    bytes_ += length;
    return {};
  }

  std::uint64_t rest_of_file(std::uint64_t address) const noexcept { return file_.size() - file_.base() - address; }

  hdf5_file& file_;
  std::vector<hdf5_message> out_;
  std::vector<block_place> more_;
  std::uint64_t bytes_ = 0;
  bool ordered_ = false;
};

// libhdf5 writes the superblock first and keeps the headers in memory: until then, the file ends there or has zeros.
bool may_be_unwritten(hdf5_file& file, std::uint64_t address) {
  constexpr std::uint64_t kLooked = 16;
  if (file.written()) return true;
  const auto begin = file.at(address, kLooked);
  if (!begin.ok()) return address == file.root();
  return std::all_of(begin->begin(), begin->end(), [](std::byte each) { return each == std::byte{0}; });
}

}  // namespace

result<std::vector<hdf5_message>> read_hdf5_object(hdf5_file& file, std::uint64_t address) {
  auto made = object_reader(file).read(address);
  if (made.ok()) return made;
  error failed = std::move(made).error().note(fmt::format("in the object header at address {}", address));
  if (failed.code() == errc::corrupt_data && !file.waiting() && may_be_unwritten(file, address))
    failed.note("the file may still be open for writing, or was not closed: its program has to flush or close it");
  return failed;
}

const hdf5_message* find_message(const std::vector<hdf5_message>& in, hdf5_message::kind type) noexcept {
  const auto found = std::find_if(in.begin(), in.end(), [&](const hdf5_message& each) { return each.type == type; });
  return found == in.end() ? nullptr : &*found;
}

}  // namespace penstock::inline v0
