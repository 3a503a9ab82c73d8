// Any bytes as a server's listing: a page or an error, in memory that the bytes bound.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/http_message.h"
#include "store/s3_listing.h"

extern "C" int run_s3_listing(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto page = penstock::parse_s3_page(text);
  if (page.ok()) {
    std::size_t bytes = page->next.size();
    for (const auto& [key, length] : page->objects) bytes += key.size();
    for (const auto& each : page->prefixes) bytes += each.size();
    if (bytes > size) std::abort();
  }
  if (penstock::first_element(text, "Key").size() > size) std::abort();
  // The other texts that a server sends.
  const auto range = penstock::parse_content_range(text);
  if (range && range->part && range->total && range->part->first + range->part->second > *range->total) std::abort();
  penstock::parse_http_date(text);
  return 0;
}
