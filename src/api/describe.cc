#include <penstock/describe.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <penstock/place.h>
#include "api/array_state.h"
#include "api/open_described.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kMagic = "penstock array 1\n";
constexpr std::uint64_t kMaxDocumentBytes = std::uint64_t{1} << 30;

void append(std::string& out, std::string_view text) {
  const std::uint64_t bytes = text.size();
  char length[sizeof bytes];
  std::memcpy(length, &bytes, sizeof bytes);
  out.append(length, sizeof length).append(text);
}

// The next text of `rest`, which begins after it then.
result<std::string_view> take(std::string_view& rest) {
  std::uint64_t bytes = 0;
  if (rest.size() < sizeof bytes) return error(errc::corrupt_data, "the description of an array ends early");
  std::memcpy(&bytes, rest.data(), sizeof bytes);
  rest.remove_prefix(sizeof bytes);
  if (bytes > rest.size()) return error(errc::corrupt_data, "the description of an array ends early");
  const std::string_view text = rest.substr(0, static_cast<std::size_t>(bytes));
  rest.remove_prefix(text.size());
  return text;
}

}  // namespace

result<std::string> describe(const array& from) {
  const array_state& state = from.state();
  if (state.uri.empty() || state.uri.starts_with("memory:") || !find_place(state.uri).ok()) {
    return error(errc::unsupported, "another process cannot open this array: it has no URI to be found by")
        .note("array '" + state.uri + "'");
  }
  std::string out(kMagic);
  append(out, state.uri);
  if (state.format != "zarr2" && state.format != "zarr3") return out;
  for (const std::string_view name : {"zarr.json", ".zarray", ".zattrs"}) {
    auto document = read_and_wait(*state.store, state.prefix + std::string(name), {}, kMaxDocumentBytes);
    if (!document.ok()) {
      if (document.error().code() == errc::not_found) continue;
      return std::move(document).error().note("reading '" + state.prefix + std::string(name) + "'");
    }
    append(out, name);
    append(out, {reinterpret_cast<const char*>(document->bytes.data()), document->bytes.size()});
  }
  return out;
}

result<array> open_description(std::string_view description, const open_options& options) {
  if (description.substr(0, kMagic.size()) != kMagic)
    return error(errc::corrupt_data, "this is no description of an array");
  description.remove_prefix(kMagic.size());
  PENSTOCK_ASSIGN(const std::string_view uri, take(description));
  std::vector<std::pair<std::string, std::string>> documents;
  while (!description.empty()) {
    PENSTOCK_ASSIGN(const std::string_view name, take(description));
    PENSTOCK_ASSIGN(const std::string_view text, take(description));
    documents.emplace_back(name, text);
  }
  if (documents.empty()) return open_array(uri, options);
  PENSTOCK_ASSIGN(place where, find_place(uri));
  open_options at = options;
  at.path = std::move(where.path);
  return open_described(std::move(where.store), at, documents);
}

}  // namespace penstock::inline v0
