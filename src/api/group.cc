#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include <penstock/array.h>
#include <penstock/open.h>
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/zarr/zarr_consolidated.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

// Collects the names of folders, and ignores all others.
class folder_names final : public key_sink {
 public:
  explicit folder_names(std::size_t prefix_length) noexcept : prefix_length_(prefix_length) {}
  bool key(std::string_view key, std::uint64_t) override {
    if (key.size() > prefix_length_ + 1 && key.back() == '/')
      names.emplace_back(key.substr(prefix_length_, key.size() - prefix_length_ - 1));
    return true;
  }
  std::vector<std::string> names;

 private:
  std::size_t prefix_length_;
};

// Whether a document exists that makes a folder a node.
class node_document final : public key_sink {
 public:
  explicit node_document(std::size_t prefix_length) noexcept : prefix_length_(prefix_length) {}
  bool key(std::string_view key, std::uint64_t) override {
    const std::string_view name = key.substr(std::min(prefix_length_, key.size()));
    found = found || name == kZarrKey || name == kZarrayKey || name == kZgroupKey;
    return !found;
  }
  bool found = false;

 private:
  std::size_t prefix_length_;
};

// The names below `prefix` that are nodes, checked one after the other.
result<std::vector<std::string>> nodes_one_by_one(const store& from, const std::string& prefix,
                                                  std::vector<std::string> names) {
  std::vector<std::string> out;
  for (std::string& name : names) {
    const std::string folder = prefix + name + "/";
    node_document look(folder.size());
    PENSTOCK_TRY(from.list(folder, listing::children, look));
    if (look.found) out.push_back(std::move(name));
  }
  return out;
}

// The same, requested together, document by document: for stores whose requests are round trips.
result<std::vector<std::string>> nodes_together(const store& from, const std::string& prefix,
                                                std::vector<std::string> names, bool is_v2) {
  constexpr std::size_t kAtOnce = 64;
  constexpr byte_range kAnything{0, 1, false};
  const std::array kinds =
      is_v2 ? std::array{kZarrayKey, kZgroupKey, kZarrKey} : std::array{kZarrKey, kZarrayKey, kZgroupKey};
  std::vector<std::string> out, keys;
  for (const std::string_view document : kinds) {
    std::vector<std::string> others;
    for (std::size_t begin = 0; begin < names.size(); begin += kAtOnce) {
      const std::span<std::string> some = std::span(names).subspan(begin, std::min(kAtOnce, names.size() - begin));
      keys.clear();
      for (const std::string& name : some) keys.push_back(fmt::format("{}{}/{}", prefix, name, document));
      const auto looked = read_all_and_wait(from, keys, kAnything, 1);
      for (std::size_t i = 0; i < some.size(); ++i) {
        // An empty one exists too; opening it reports the error.
        const bool there = looked[i].ok() || looked[i].error().code() == errc::corrupt_data;
        if (!there && looked[i].error().code() != errc::not_found)
          return looked[i].error().clone().note(read_note(keys[i], kAnything));
        (there ? out : others).push_back(std::move(some[i]));
      }
    }
    names = std::move(others);
  }
  return out;
}

}  // namespace

bool group::consolidated() const noexcept { return state_->consolidated != nullptr && !state_->consolidated->stale(); }

result<std::vector<std::string>> group::keys() const {
  if (consolidated()) return state_->consolidated->children(state_->consolidated_path);
  if (state_->members) {
    PENSTOCK_ASSIGN(std::optional<std::vector<std::string>> names, state_->members->keys(state_->prefix));
    if (names) return std::move(*names);
  }
  folder_names folders(state_->prefix.size());
  auto listed = state_->store->list(state_->prefix, listing::children, folders);
  if (!listed.ok()) return std::move(listed).error().note("group '" + state_->uri + "'");
  const bool at_once = state_->store->traits().inline_completion;
  auto found =
      at_once ? nodes_one_by_one(*state_->store, state_->prefix, std::move(folders.names))
              : nodes_together(*state_->store, state_->prefix, std::move(folders.names), state_->format == "zarr2");
  if (!found.ok()) return std::move(found).error().note("group '" + state_->uri + "'");
  std::sort(found->begin(), found->end());
  return found;
}

result<std::vector<std::pair<std::string, node>>> open_members(const group& parent) {
  // Nodes are open while their documents are in memory, so their number is limited.
  constexpr std::size_t kAtOnce = 64;
  const group_state& state = parent.state();
  std::vector<std::pair<std::string, node>> out;
  if (parent.consolidated() || state.members || state.store->traits().inline_completion) {
    PENSTOCK_ASSIGN(const std::vector<std::string> names, parent.keys());
    for (const std::string& name : names) {
      PENSTOCK_ASSIGN(node opened, open(parent, name));
      out.emplace_back(name, std::move(opened));
    }
    return out;
  }
  folder_names folders(state.prefix.size());
  auto listed = state.store->list(state.prefix, listing::children, folders);
  if (!listed.ok()) return std::move(listed).error().note("group '" + state.uri + "'");
  std::sort(folders.names.begin(), folders.names.end());
  for (std::size_t begin = 0; begin < folders.names.size(); begin += kAtOnce) {
    const auto names = std::span(folders.names).subspan(begin, std::min(kAtOnce, folders.names.size() - begin));
    std::vector<node_place> places;
    std::vector<std::string> prefixes;
    for (const std::string& name : names) prefixes.push_back(places.emplace_back(child_place(parent, name)).prefix);
    auto found = find_zarr_nodes(*state.store, prefixes, places[0].use_consolidated, state.format == "zarr2" ? 2 : 3);
    for (std::size_t i = 0; i < names.size(); ++i) {
      PENSTOCK_ASSIGN(std::optional<node> made, make_found(std::move(places[i]), std::move(found[i])));
      if (made) out.emplace_back(std::move(names[i]), std::move(*made));
    }
  }
  return out;
}

}  // namespace penstock::inline v0
