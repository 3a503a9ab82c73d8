#include "format/reference/kerchunk_folder.h"

#include <fmt/format.h>

#include <penstock/extend/json.h>

namespace penstock::inline v0 {

result<kerchunk_folder> kerchunk_folder::parse(std::string_view text) {
  PENSTOCK_ASSIGN(const json document, json::parse(text));
  const json* const metadata = document.find("metadata");
  if (metadata == nullptr || metadata->as_object() == nullptr)
    return error(errc::corrupt_data, "references have no member 'metadata', which is an object");
  kerchunk_folder out;
  for (const auto& [key, value] : *metadata->as_object()) out.documents[key] = value.dump();
  const json* const size = document.find("record_size");
  std::int64_t rows = 0;
  if (size == nullptr || !size->get(rows) || rows < 1) {
    return error(errc::corrupt_data, fmt::format("references have a 'record_size' of {}",
                                                 size == nullptr ? "null" : size->dump().substr(0, 80)));
  }
  out.record_size = static_cast<std::uint64_t>(rows);
  return out;
}

}  // namespace penstock::inline v0
