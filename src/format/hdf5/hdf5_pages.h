#pragma once

#include <penstock/result.h>
#include <penstock/store.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "format/hdf5/hdf5_file.h"

namespace penstock::inline v0 {

/// What a round fetches in addition to the missing pages, to save requests and rounds.
struct hdf5_ahead {
  std::uint64_t most_gap = 0;    ///< ranges with at most this many bytes between them are fused
  std::uint64_t front = 0;       ///< if a page of this many first bytes is missing, all are fetched
  std::uint64_t file_page = 0;   ///< if the file stores its metadata in pages of this size, whole pages are fetched
  std::uint64_t most_after = 0;  ///< the most bytes fetched after each range
  /// The most bytes fetched before each range, after `most_after`. Writers put the continuations of an object's header,
  /// and its text, after its values: often just before the header of the next object.
  std::uint64_t most_before = 0;
  /// File pages, ranges of `hope`, `most_after` and `most_before` are not fetched if the sum of fetched bytes would
  /// exceed twice the bytes that parsers have requested, plus this allowance.
  std::uint64_t allowance = 0;
};

/// The pages of a file that were fetched so far, all of one size. Performs no I/O.
///
/// Parsers read from it. A read of bytes that are not cached fails and records the missing pages. A parser then
/// continues with the parts that do not depend on them, so that all pages of one level are recorded together.
/// `parse_hdf5_in_rounds` fetches them and parses again. Memory is used only for fetched pages, each stored once.
class hdf5_pages final : public hdf5_source {
 public:
  /// \param file_bytes  Size of the file. \param page_bytes  A power of two.
  hdf5_pages(std::uint64_t file_bytes, std::uint64_t page_bytes) noexcept
      : file_bytes_(file_bytes), page_bytes_(page_bytes) {}

  std::uint64_t size() const noexcept override { return file_bytes_; }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override;
  bool waiting() const noexcept override { return !missing_.empty(); }
  bool holds(std::uint64_t offset, std::uint64_t length) const noexcept override;

  /// Records the pages of a range that the caller expects to need, for example the beginning of a file.
  void expect(std::uint64_t offset, std::uint64_t length) override;
  /// Records a range that the caller may need. It is fetched with the next missing pages, if `allowance` permits all of
  /// it, and never alone.
  void hope(std::uint64_t offset, std::uint64_t length);
  /// Returns the ranges to fetch, ascending and in whole pages, and clears the list of missing pages.
  std::vector<byte_range> take_missing(const hdf5_ahead& ahead = {});
  /// A copy of a range, if all of it is cached.
  std::optional<std::vector<std::byte>> copy(std::uint64_t offset, std::uint64_t length) const;
  /// Adds the bytes of such a range.
  /// \error io_error  They are fewer than the range needs.
  result<> add(const byte_range& range, std::span<const std::byte> bytes);

  std::uint64_t fetched_bytes() const noexcept { return fetched_bytes_; }

 private:
  struct page {
    std::vector<std::byte> bytes;
    bool used = false;  // a parser has read it
  };
  struct stretch {
    std::uint64_t begin, end;  // offsets, at page boundaries
  };
  /// The missing ranges, extended by `ahead`, and those of `hope`, in ascending order. They may overlap each other and
  /// fetched pages.
  std::vector<stretch> widened(const hdf5_ahead& ahead) const;
  void trim(stretch& of) const;
  std::uint64_t share_of_each(std::size_t ranges, std::uint64_t allowance) const noexcept;

  std::uint64_t file_bytes_, page_bytes_, fetched_bytes_ = 0, used_bytes_ = 0;
  std::unordered_map<std::uint64_t, page> pages_;  // by number
  std::set<std::uint64_t> missing_;
  std::vector<stretch> hoped_;
  std::vector<std::byte> joined_;  // the bytes of the last read that crossed pages
};

/// The cached part of another source. Other bytes are missing, but are not recorded there. Shows whether a parser has
/// everything that it needs.
class hdf5_held final : public hdf5_source {
 public:
  explicit hdf5_held(hdf5_source& from) noexcept : from_(from) {}

  std::uint64_t size() const noexcept override { return from_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override;
  bool waiting() const noexcept override { return waiting_; }
  bool holds(std::uint64_t offset, std::uint64_t length) const noexcept override { return from_.holds(offset, length); }

 private:
  hdf5_source& from_;
  bool waiting_ = false;
};

/// Calls `parse` until `pages` has all bytes that it needs, and `fetch` before each further call.
///
/// \param ahead  `parse` may change it.
/// \param parse  Returns a result. It is called once more than there are rounds.
/// \param fetch  Fetches the ranges of one round, adds their bytes to `pages` and returns a result<>.
/// \returns The result of the last call of `parse`. \error The first error of `fetch`.
template <class Parse, class Fetch>
auto parse_hdf5_in_rounds(hdf5_pages& pages, const hdf5_ahead& ahead, Parse&& parse, Fetch&& fetch)
    -> decltype(parse()) {
  for (;;) {
    auto made = parse();
    const std::vector<byte_range> missing = pages.take_missing(ahead);
    if (missing.empty()) return made;
    const std::uint64_t before = pages.fetched_bytes();
    result<> done = fetch(std::span<const byte_range>(missing));
    if (!done.ok()) return std::move(done).error();
    if (pages.fetched_bytes() == before) return error(errc::io_error, "the file ended early while it was read");
  }
}

}  // namespace penstock::inline v0
