// Any bytes as an HDF5 file: every object, link, attribute and dataset is described, or refused. A file that is fetched
// in rounds gives the same description as the whole file.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <penstock/extend/json.h>
#include "format/hdf5/hdf5_describe.h"
#include "format/hdf5/hdf5_pages.h"
#include "format/hdf5/hdf5_targets.h"

namespace {

using namespace penstock;

class bytes_in_memory final : public hdf5_source {
 public:
  explicit bytes_in_memory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) override {
    if (offset > bytes_.size() || length > bytes_.size() - offset) __builtin_trap();
    return bytes_.subspan(offset, length);
  }

 private:
  std::span<const std::byte> bytes_;
};

std::string text_of(const result<json>& described) {
  if (described.ok()) return described->dump();
  if (described.error().code() != errc::corrupt_data && described.error().code() != errc::unsupported) __builtin_trap();
  return described.error().message();
}

std::string in_rounds(std::span<const std::byte> bytes, hdf5_checksums sums) {
  constexpr std::uint64_t kPageBytes = 512;
  hdf5_pages pages(bytes.size(), kPageBytes);
  const auto fetch = [&](std::span<const byte_range> ranges) -> result<> {
    for (const byte_range& each : ranges) PENSTOCK_TRY(pages.add(each, bytes.subspan(each.offset, each.length)));
    return {};
  };
  return text_of(parse_hdf5_in_rounds(pages, {}, [&] { return describe_hdf5(pages, sums); }, fetch));
}

/// The names that references to objects become: every object once, by a path that leads to it.
void find_paths(hdf5_source& source, hdf5_checksums sums) {
  auto file = hdf5_file::open(source, sums);
  if (!file.ok()) return;
  hdf5_tree tree(*file);
  for (const auto& [object, path] : find_hdf5_paths(*file, tree)) {
    if (path.empty() || path.front() != '/') __builtin_trap();
  }
}

}  // namespace

extern "C" int run_hdf5_file(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const hdf5_checksums sums : {hdf5_checksums::verified, hdf5_checksums::ignored}) {
    bytes_in_memory source(bytes);
    if (text_of(describe_hdf5(source, sums)) != in_rounds(bytes, sums)) __builtin_trap();
    find_paths(source, sums);
  }
  return 0;
}
