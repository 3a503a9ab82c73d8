#include <algorithm>
#include <string_view>

#include <penstock/array.h>
#include "api/array_state.h"
#include "format/zarr/zarr_consolidated.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

// Collects the names of folders, and stops at nothing else.
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

// Whether a document that makes a folder a node is there.
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

}  // namespace

group::group(std::shared_ptr<const group_state> state) noexcept : state_(std::move(state)) {}
const std::string& group::attributes_json() const noexcept { return state_->attributes_json; }
const std::string& group::uri() const noexcept { return state_->uri; }
const std::string& group::format() const noexcept { return state_->format; }

bool group::consolidated() const noexcept { return state_->consolidated != nullptr && !state_->consolidated->stale(); }

result<std::vector<std::string>> group::keys() const {
  if (consolidated()) return state_->consolidated->children(state_->consolidated_path);
  folder_names folders(state_->prefix.size());
  auto listed = state_->store->list(state_->prefix, listing::children, folders);
  if (!listed.ok()) return std::move(listed).error().note("group '" + state_->uri + "'");
  std::vector<std::string> out;
  for (std::string& name : folders.names) {
    const std::string folder = state_->prefix + name + "/";
    node_document look(folder.size());
    auto looked = state_->store->list(folder, listing::children, look);
    if (!looked.ok()) return std::move(looked).error().note("group '" + state_->uri + "'");
    if (look.found) out.push_back(std::move(name));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace penstock::inline v0
