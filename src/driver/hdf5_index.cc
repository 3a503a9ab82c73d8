#include "driver/hdf5_index.h"

#include <utility>

#include "driver/hdf5_reader.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/hdf5/hdf5_cache_image.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_describe.h"
#include "format/hdf5/hdf5_object.h"
#include "format/hdf5/hdf5_pages.h"

namespace penstock::inline v0 {

result<hdf5_index> read_hdf5_index(const store& from, std::string_view key, std::uint64_t header) {
  hdf5_stored_file source(from, key);
  PENSTOCK_TRY(source.begin());
  PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(source));
  PENSTOCK_TRY(read_hdf5_cache_image(file));
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
    return error(errc::unsupported, "the store does not report the file's size");
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
