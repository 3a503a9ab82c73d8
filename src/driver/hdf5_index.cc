#include "driver/hdf5_index.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/checked.h"
#include "driver/hdf5_reader.h"
#include "engine/batch_job.h"
#include "engine/blocking_read.h"
#include "engine/context_state.h"
#include "engine/index_io.h"
#include "format/hdf5/hdf5_attributes.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_describe.h"
#include "format/hdf5/hdf5_group.h"
#include "format/hdf5/hdf5_pages.h"

namespace penstock::inline v0 {
namespace {

/// Files that one worker takes at a time.
constexpr std::size_t kFilesAtOnce = 64;

/// One of many files.
struct scanned_dataset {
  hdf5_shape shape;
  hdf5_layout layout;
  std::vector<std::byte> meaning;  // messages that say what the bytes mean, and what their values do
  std::uint64_t start = 0;         // of contiguous data
  hdf5_chunks chunks;
};

result<scanned_dataset> scan(const store& from, std::string_view key, std::string_view dataset) {
  constexpr hdf5_message::kind kMeaning[] = {hdf5_message::datatype, hdf5_message::old_fill_value,
                                             hdf5_message::fill_value, hdf5_message::filters};
  hdf5_stored_file source(from, key);
  PENSTOCK_TRY(source.begin());
  PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source));
  PENSTOCK_ASSIGN(const std::uint64_t header, find_hdf5_object(file, dataset));
  PENSTOCK_ASSIGN(const std::vector<hdf5_message> messages, read_hdf5_object(file, header));
  scanned_dataset out;
  PENSTOCK_ASSIGN(out.shape, parse_hdf5_shape(file, messages));
  PENSTOCK_ASSIGN(out.layout, parse_hdf5_layout(file, messages));
  if (out.layout.what == hdf5_layout::kind::compact || out.layout.what == hdf5_layout::kind::mapped ||
      find_message(messages, hdf5_message::external_files) != nullptr)
    return error(errc::unsupported, "the dataset lies elsewhere");
  for (const hdf5_message::kind kind : kMeaning) {
    const hdf5_message* const found = find_message(messages, kind);
    out.meaning.push_back(static_cast<std::byte>(kind));
    if (found == nullptr) continue;
    if (found->shared) return error(errc::unsupported, "the dataset shares its type");
    out.meaning.insert(out.meaning.end(), found->body.begin(), found->body.end());
  }
  PENSTOCK_ASSIGN(const std::vector<std::byte> of_values, hdf5_meaning_of_values(file, messages));
  out.meaning.insert(out.meaning.end(), of_values.begin(), of_values.end());
  if (out.layout.what == hdf5_layout::kind::contiguous) {
    out.start = byte_range::kAll;
    if (!file.undefined(out.layout.address) && !checked_add(file.base(), out.layout.address, out.start))
      return error(errc::corrupt_data, "the data lies beyond 64 bits");
    return out;
  }
  PENSTOCK_ASSIGN(out.chunks, list_hdf5_chunks(file, out.shape, out.layout));
  const auto skips = [](std::uint64_t mask) { return mask != 0; };
  if (out.layout.raw_edges || std::any_of(out.chunks.masks.begin(), out.chunks.masks.end(), skips))
    return error(errc::unsupported, "chunks that skip filters");
  out.chunks.masks = {};
  return out;
}

// Whether two datasets follow each other along `axis`, stored in the same way.
bool go_together(const scanned_dataset& a, const scanned_dataset& b, std::size_t axis) {
  const std::size_t rank = a.shape.extents.size();
  if (b.shape.extents.size() != rank || axis >= rank || a.meaning != b.meaning) return false;
  if (a.layout.what != b.layout.what || a.layout.chunk != b.layout.chunk ||
      a.layout.element_bytes != b.layout.element_bytes)
    return false;
  for (std::size_t d = 0; d < rank; ++d)
    if (d != axis && a.shape.extents[d] != b.shape.extents[d]) return false;
  return true;
}

}  // namespace

std::optional<hdf5_shards> scan_hdf5_shards(const store& from, const std::vector<std::string>& keys,
                                            std::string_view dataset, std::size_t axis, context& with) {
  std::vector<std::optional<scanned_dataset>> found(keys.size());
  const auto work = [&](std::size_t batch, unsigned) -> result<> {
    for (std::size_t i = batch * kFilesAtOnce; i < std::min(keys.size(), (batch + 1) * kFilesAtOnce); ++i) {
      PENSTOCK_ASSIGN(found[i], scan(from, keys[i], dataset));
    }
    return {};
  };
  const std::size_t batches = (keys.size() + kFilesAtOnce - 1) / kFilesAtOnce;
  const auto all = std::make_shared<batch_job>(batches, work);
  with.state().executor().run(all, batches < 2 ? 1 : with.threads(), {}, std::chrono::milliseconds(20));
  if (!all->outcome().ok() || keys.empty()) return std::nullopt;

  hdf5_shards out;
  for (std::optional<scanned_dataset>& each : found) {
    if (!each || !go_together(*found.front(), *each, axis)) return std::nullopt;
    out.rows.push_back(each->shape.extents[axis]);
    if (each->layout.what == hdf5_layout::kind::contiguous) out.starts.push_back(each->start);
    out.entries.push_back(each->chunks.cells.size());
    const auto append = [](std::vector<std::uint64_t>& to, std::vector<std::uint64_t>& column) {
      to.insert(to.end(), column.begin(), column.end());
      column = {};
    };
    append(out.chunks.cells, each->chunks.cells);
    append(out.chunks.offsets, each->chunks.offsets);
    append(out.chunks.lengths, each->chunks.lengths);
  }
  return out;
}

result<> check_hdf5_group(const store& from, std::string_view key, std::uint64_t header) {
  hdf5_stored_file source(from, key);
  PENSTOCK_TRY(source.begin());
  PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source));
  return check_hdf5_group(file, header);
}

result<hdf5_index> read_hdf5_index(const store& from, std::string_view key, std::uint64_t header) {
  hdf5_stored_file source(from, key);
  PENSTOCK_TRY(source.begin());
  PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source));
  PENSTOCK_ASSIGN(const std::vector<hdf5_message> messages, read_hdf5_object(file, header));
  PENSTOCK_ASSIGN(const hdf5_shape shape, parse_hdf5_shape(file, messages));
  PENSTOCK_ASSIGN(const hdf5_layout layout, parse_hdf5_layout(file, messages));
  if (layout.what != hdf5_layout::kind::chunked) return error(errc::unsupported, "the dataset has no chunks");
  PENSTOCK_ASSIGN(hdf5_chunks chunks, list_hdf5_chunks(file, shape, layout));
  return hdf5_index{std::move(chunks), layout.raw_edges};
}

result<hdf5_description> describe_hdf5_file(const store& from, std::string_view key) {
  constexpr std::uint64_t kPageBytes = std::uint64_t{4} << 10, kMostGapBytes = std::uint64_t{16} << 10;
  constexpr std::uint64_t kFirstBytes = std::uint64_t{64} << 10;
  auto first = read_and_wait(from, key, {0, 1, false}, 1);
  if (!first.ok()) return std::move(first).error().note(read_note(key, {0, 1, false}));
  if (first->object_size == byte_range::kAll)
    return error(errc::unsupported, "the store does not report how long the file is");
  hdf5_pages pages(first->object_size, kPageBytes);
  hdf5_description out;
  const auto fetch = [&](std::span<const byte_range> ranges) -> result<> {
    ++out.rounds;
    out.requests += ranges.size();
    auto read = read_ranges_and_wait(from, key, ranges, &first->seen);
    if (!read.ok()) {
      if (read.error().code() == errc::version_changed)
        return error(errc::conflict, "the file changed while its metadata was read");
      return std::move(read).error();
    }
    for (std::size_t i = 0; i < ranges.size(); ++i) PENSTOCK_TRY(pages.add(ranges[i], (*read)[i].bytes));
    return {};
  };
  pages.expect(0, kFirstBytes);
  PENSTOCK_ASSIGN(
      const json found,
      parse_hdf5_in_rounds(pages, {.most_gap = kMostGapBytes}, [&] { return describe_hdf5(pages); }, fetch));
  out.text = found.dump();
  out.bytes = pages.fetched_bytes();
  return out;
}

}  // namespace penstock::inline v0
