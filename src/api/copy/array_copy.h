#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <penstock/copy.h>

namespace penstock::inline v0 {

/// The range of `count` items that one of the processes handles.
inline std::pair<std::uint64_t, std::uint64_t> share_of(const copy_part& which, std::uint64_t count) noexcept {
  const auto begin = [&](std::uint64_t number) {
    return count / which.count * number + std::min(number, count % which.count);
  };
  return {begin(which.number), begin(which.number + 1)};
}

/// One array to copy. `report` is added to.
struct array_copy {
  const array& from;
  std::shared_ptr<store> to;
  std::string prefix;  ///< of the destination's keys
  std::string path;    ///< within the copied node, for reports
  const copy_options& options;
  copy_report& report;
  bool as_text = false;  ///< the elements are bytes, and `is_text`: the copy has text

  unsigned threads() const;
  copy_stage stage() const noexcept { return options.part.stage; }
  /// Whether the elements are bytes of HDF5's character set ASCII that are text: all are UTF-8. Reads them.
  result<bool> is_text() const;
  /// Whether the elements can be copied with these options. Does not write.
  result<> check_elements() const;
  /// Copies metadata and objects byte for byte, or the part of this work that belongs to the stage; so does
  /// `copy_elements`.
  result<> copy_objects() const;
  /// Decodes and encodes again.
  result<> copy_elements() const;
  /// Compares the copy's elements with the source's, in the blocks of this process.
  result<> compare() const;
};

}  // namespace penstock::inline v0
