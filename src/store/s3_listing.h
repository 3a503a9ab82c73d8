#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::inline v0 {

/// One page of `ListObjectsV2`.
struct s3_page {
  std::vector<std::pair<std::string, std::uint64_t>> objects;  ///< keys and sizes
  std::vector<std::string> prefixes;                           ///< "folders", with their final '/'
  std::string next;                                            ///< the continuation token; empty: the last page
};

/// Reads the XML of such a page. Needs no more memory than the text, which the caller bounds.
/// \error corrupt_data  It is not well-formed, nested too deeply, or not a listing.
result<s3_page> parse_s3_page(std::string_view xml);

/// The text of the first element with that name, its entities resolved; empty if it does not exist. For short responses
/// (`UploadId`, `ETag`, `Code`).
std::string first_element(std::string_view xml, std::string_view name);

/// `text` escaped for XML.
std::string xml_escaped(std::string_view text);

}  // namespace penstock::inline v0
