#include "driver/hdf5_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kHeadBytes = std::uint64_t{64} << 10;

// The end of a file whose store does not report its size, from the superblock in its first bytes. The file may be
// shorter.
result<std::uint64_t> end_in_superblock(std::span<const std::byte> head) {
  constexpr std::string_view kWhy = "the store does not report the file's size";
  constexpr std::uint64_t kPage = 4096;
  hdf5_pages begin(head.size(), kPage);
  if (!head.empty()) PENSTOCK_TRY(begin.add({0, head.size(), false}, head));
  const auto file = hdf5_file::open(begin);
  if (!file.ok()) return file.error().clone().note(std::string(kWhy));
  std::uint64_t end = 0;
  if (file->end() == 0 || !checked_add(file->base(), file->end(), end))
    return error(errc::unsupported, fmt::format("{}, and its superblock does not have it", kWhy));
  return end;
}

result<> check_end(const store& from, std::string_view key, const version& seen, std::uint64_t size) {
  const byte_range last{size - 1, 1, false};
  auto read = read_and_wait(from, key, last, 1, &seen);
  if (!read.ok()) return std::move(read).error().note(read_note(key, last));
  if (!read->bytes.empty()) return {};
  return error(errc::corrupt_data, fmt::format("the file is shorter than the {} bytes in its superblock", size));
}

error changed() { return {errc::conflict, "the file changed while its metadata was read"}; }

}  // namespace

result<> hdf5_stored_file::begin() {
  auto read = read_and_wait(from_, key_, {0, 1, false}, 1);
  if (!read.ok()) return std::move(read).error().note(read_note(key_, {0, 1, false}));
  size_ = read->object_size;
  seen_ = std::move(read->seen);
  if (size_ != byte_range::kAll) return {};
  auto head = read_and_wait(from_, key_, {0, kHeadBytes, false}, kHeadBytes, &seen_);
  if (!head.ok()) return std::move(head).error().note(read_note(key_, {0, kHeadBytes, false}));
  size_ = head->object_size;
  if (size_ != byte_range::kAll) return {};
  PENSTOCK_ASSIGN(size_, end_in_superblock(head->bytes));
  return check_end(from_, key_, seen_, size_);
}

result<std::span<const std::byte>> hdf5_stored_file::read(std::uint64_t offset, std::uint64_t length) {
  if (offset + length <= head_.size())
    return head_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
  for (const window& each : windows_) {
    if (offset < each.begin || offset - each.begin > each.bytes.size()) continue;
    const std::uint64_t at = offset - each.begin;
    if (length <= each.bytes.size() - at)
      return std::span<const std::byte>(each.bytes)
          .subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length));
  }
  const window& last = windows_[newest_];
  const bool follows = offset >= last.begin && offset <= last.begin + last.bytes.size();
  ahead_ = follows ? std::min(2 * ahead_, kMostWindow) : kLeastWindow;
  const std::uint64_t first = as_a_whole_ ? 0 : offset;
  const byte_range range{first, as_a_whole_ ? size_ : std::min(std::max(length, ahead_), size_ - offset), false};
  const bool same_handle = seen_.known();  // a query of the open file instead of a lookup of its path
  auto read = read_and_wait(from_, key_, range, range.length, &seen_, false, same_handle);
  if (!read.ok()) {
    if (read.error().code() == errc::version_changed) return changed().note(read_note(key_, range));
    return std::move(read).error().note(read_note(key_, range));
  }
  if (read->bytes.size() < offset - first + length)
    return error(errc::io_error, "the file ended early while it was read");
  for (window& each : windows_)
    if (each.bytes.size() > kMostWindow) each = {};  // one long value at a time
  newest_ = (newest_ + 1) % windows_.size();
  windows_[newest_] = {first, std::move(read->bytes)};
  return std::span<const std::byte>(windows_[newest_].bytes)
      .subspan(static_cast<std::size_t>(offset - first), static_cast<std::size_t>(length));
}

result<std::shared_ptr<hdf5_reader>> hdf5_reader::open(std::shared_ptr<const store> from, std::string key,
                                                       const object_head* head) {
  if (head == nullptr) {
    hdf5_stored_file file(*from, key);
    PENSTOCK_TRY(file.begin());
    return std::shared_ptr<hdf5_reader>(new hdf5_reader(std::move(from), std::move(key), file.seen(), file.size()));
  }
  std::uint64_t size = head->object_size;
  const bool is_known = size != byte_range::kAll;
  if (!is_known) {
    PENSTOCK_ASSIGN(size, end_in_superblock(head->bytes));
  }
  std::shared_ptr<hdf5_reader> made(new hdf5_reader(std::move(from), std::move(key), head->seen, size));
  if (!made->in_rounds()) {
    if (!is_known) PENSTOCK_TRY(check_end(*made->from_, made->key_, head->seen, size));
    const auto bytes = std::span(head->bytes).first(std::min<std::size_t>(head->bytes.size(), made->pages_.size()));
    made->head_.assign(bytes.begin(), bytes.end());
    return made;
  }
  const bool whole = head->bytes.size() >= size;
  const std::uint64_t known = whole ? size : head->bytes.size() / kPageBytes * kPageBytes;
  if (known != 0) PENSTOCK_TRY(made->pages_.add({0, known, false}, head->bytes));
  if (!is_known) made->pages_.expect(size - 1, 1);  // a shorter file fails before it is parsed
  made->hopes_for_end_ = is_known && !whole;
  return made;
}

std::shared_ptr<const held_bytes> hdf5_reader::held(std::uint64_t offset, std::uint64_t length) {
  if (!seen_.known()) return nullptr;  // values without a version are always read from the store
  // Arrays that are opened and not read would hold theirs: of a file with many of them, all of its bytes.
  while (!held_.empty()) {
    const auto oldest = held_.front().lock();
    if (oldest && !oldest->drop_if_old()) break;
    held_.pop_front();
  }
  auto bytes = pages_.copy(offset, length);
  if (!bytes) return nullptr;
  auto made = std::make_shared<const held_bytes>(offset, std::move(*bytes), pages_.size());
  held_.push_back(made);
  return made;
}

// The message may be in the pages that are fetched next. If it is damaged, it is not needed.
void hdf5_reader::note_paging(hdf5_file& file) {
  constexpr std::uint64_t kMostFilePage = std::uint64_t{8} << 20;
  if (knows_paging_) return;
  const auto bytes = read_hdf5_page_bytes(file);
  if (!bytes.ok() && file.waiting()) return;
  knows_paging_ = true;
  if (bytes.ok() && *bytes <= kMostFilePage && *bytes % kPageBytes == 0) ahead_.file_page = *bytes;
}

result<> hdf5_reader::fetch(std::span<const byte_range> ranges) {
  hopes_for_end_ = false;
  auto read = read_ranges_and_wait(*from_, key_, ranges, &seen_);
  if (!read.ok()) {
    if (read.error().code() == errc::version_changed) return changed();
    return std::move(read).error();
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) PENSTOCK_TRY(pages_.add(ranges[i], (*read)[i].bytes));
  return {};
}

// Pages of large chunk indexes are needed only once.
void hdf5_reader::forget_if_large() {
  constexpr std::uint64_t kMostKept = std::uint64_t{32} << 20;
  if (pages_.fetched_bytes() > kMostKept) pages_ = hdf5_pages(pages_.size(), kPageBytes);
}

}  // namespace penstock::inline v0
