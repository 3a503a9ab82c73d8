#pragma once

#include <memory>
#include <string>

#include <penstock/copy.h>

namespace penstock::inline v0 {

/// One array to copy. `report` is added to.
struct array_copy {
  const array& from;
  std::shared_ptr<store> to;
  std::string prefix;  ///< of the destination's keys
  std::string path;    ///< within the copied node, for reports
  const copy_options& options;
  copy_report& report;

  unsigned threads() const;
  /// Whether the elements can be copied with these options. Does not write.
  result<> check_elements() const;
  /// Metadata and objects, byte for byte.
  result<> copy_objects() const;
  /// Decodes and encodes again.
  result<> copy_elements() const;
  /// Whether the copy's elements equal the source's.
  result<> compare() const;
};

}  // namespace penstock::inline v0
