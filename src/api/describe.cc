#include <penstock/describe.h>
#include <penstock/open.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <penstock/place.h>
#include <penstock/shards.h>
#include "driver/open_described.h"
#include "driver/open_saved.h"
#include "driver/shard_table.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kDescriptionMagic = "penstock array 1\n";
constexpr std::uint64_t kMaxDocumentBytes = std::uint64_t{1} << 30;
// Names of documents that are not Zarr metadata: the files of a joined array, references.
constexpr std::string_view kFiles = "penstock files", kAbsent = "penstock absent files";
constexpr std::string_view kReferences = "penstock references", kFolder = "penstock folder";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append(std::string& out, std::string_view text) {
  const std::uint64_t bytes = text.size();
  char length[sizeof bytes];
  std::memcpy(length, &bytes, sizeof bytes);
  out.append(length, sizeof length).append(text);
}

// The next text of `rest`, which is advanced past it.
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

using documents = std::vector<std::pair<std::string, std::string>>;

std::string_view find_document(const documents& in, std::string_view name) {
  for (const auto& [each, text] : in)
    if (each == name) return text;
  return {};
}

// The facts about each file, including which files are absent, so that no other process has to query them.
result<> append_files(std::string& out, const array& from) {
  PENSTOCK_ASSIGN(const std::vector<std::byte> manifest,
                  save_manifest(from, from.state().store->uri(), manifest_form::binary));
  append(out, kFiles);
  append(out, text_of(manifest));
  std::string absent;
  for (const raw_part& each : from.state().files->parts) absent.push_back(each.missing ? '1' : '0');
  append(out, kAbsent);
  append(out, absent);
  return {};
}

result<array> open_files_of(const documents& known, std::string_view uri, std::shared_ptr<context> with) {
  if (!with) {
    PENSTOCK_ASSIGN(with, context::make());
  }
  std::string root;
  PENSTOCK_ASSIGN(shard_table table, parse_manifest(std::as_bytes(std::span(find_document(known, kFiles))), root));
  const std::string_view absent = find_document(known, kAbsent);
  if (absent.size() != table.parts.size())
    return error(errc::corrupt_data, "the description of an array lists too few files");
  for (std::size_t i = 0; i < absent.size(); ++i) table.parts[i].missing = absent[i] == '1';
  PENSTOCK_ASSIGN(place where, find_place(root, {with, {}}));
  move_below(where.path, table);
  return open_table(std::move(where.store), std::make_shared<const shard_table>(std::move(table)), std::move(with),
                    std::string(uri));
}

}  // namespace

result<std::string> describe(const array& from) {
  const array_state& state = from.state();
  if (state.uri.empty() || state.uri.starts_with("memory:") || !find_place(state.uri).ok()) {
    return error(errc::unsupported, "another process cannot open this array: it has no URI")
        .note("array '" + state.uri + "'");
  }
  std::string out(kDescriptionMagic);
  append(out, state.uri);
  if (state.saved) {
    append(out, kReferences);
    append(out, text_of(state.saved->manifest));
    append(out, kFolder);
    append(out, state.saved->folder);
    return out;
  }
  if (state.files && !state.files->format.empty()) {
    PENSTOCK_TRY(append_files(out, from));
    return out;
  }
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
  if (description.substr(0, kDescriptionMagic.size()) != kDescriptionMagic)
    return error(errc::corrupt_data, "this is not a description of an array");
  description.remove_prefix(kDescriptionMagic.size());
  PENSTOCK_ASSIGN(const std::string_view uri, take(description));
  documents known;
  while (!description.empty()) {
    PENSTOCK_ASSIGN(const std::string_view name, take(description));
    PENSTOCK_ASSIGN(const std::string_view text, take(description));
    known.emplace_back(name, text);
  }
  if (known.empty()) return open_array(uri, options);
  if (known.front().first == kFiles) return open_files_of(known, uri, options.context);
  if (known.front().first == kReferences)
    return open_saved_references(std::as_bytes(std::span(find_document(known, kReferences))),
                                 {std::string(find_document(known, kFolder)), {{}, true, {}}},
                                 options.context);  // checked already
  PENSTOCK_ASSIGN(place where, find_place(uri, {options.context, {}}));
  open_options at = options;
  at.path = std::move(where.path);
  return open_described(std::move(where.store), at, known);
}

}  // namespace penstock::inline v0
