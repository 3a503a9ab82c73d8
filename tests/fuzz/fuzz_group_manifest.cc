// Any bytes as a manifest of a group: refused, or a tree that can be listed, whose members open or are refused, and
// that is equal after saving and opening again. Most inputs contradict the numbers of bytes in their first line, so
// each input is also opened with correct numbers: its other lines are distributed among the members.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <penstock/extend/json.h>
#include "base/json_bytes.h"
#include "driver/open_reference.h"
#include "driver/open_saved.h"
#include "engine/array_state.h"

namespace {

using namespace penstock;

// Paths of all arrays and groups below; false if a member is refused.
bool visit(const group& from, const std::string& path, unsigned level, std::set<std::string>& out) {
  if (level > 32) std::abort();
  const group_state& state = from.state();
  const auto names = state.members->keys(state.prefix);
  if (!names.ok() || !*names) std::abort();
  bool whole = true;
  for (const std::string& name : **names) {
    if (name.empty() || name.find('/') != std::string::npos) std::abort();
    const std::string inner = path.empty() ? name : path + "/" + name;
    if (!out.insert(inner).second) std::abort();
    const auto member = state.members->open(state.prefix + name);
    if (!member.ok()) {
      if (member.error().code() == errc::internal || member.error().message().starts_with("the manifest has no"))
        std::abort();
      whole = false;
    } else if (const auto* const below = std::get_if<group>(&*member)) {
      whole = visit(*below, inner, level + 1, out) && whole;
    } else {
      (void)std::get<array>(*member).uri();
    }
  }
  return whole;
}

void open(std::span<const std::byte> bytes) {
  static const std::shared_ptr<context> with = context::make().value();
  const manifest_place nowhere{"/nowhere", {}};
  const auto made = open_saved_node({bytes.begin(), bytes.end()}, nowhere, with);
  if (!made.ok()) {
    if (made.error().code() == errc::internal) std::abort();
    return;
  }
  const auto* const root = std::get_if<group>(&*made);
  if (root == nullptr) return;
  std::set<std::string> paths, again_paths;
  if (!visit(*root, "", 0, paths)) return;
  const auto saved = save_references(*root, {.folder = "/nowhere"});
  if (!saved.ok()) return;  // joined files are not references
  const auto again = open_saved_node(*saved, nowhere, with);
  if (!again.ok() || !visit(std::get<group>(*again), "", 0, again_paths) || paths != again_paths) std::abort();
  if (std::get<group>(*again).attributes_json() != root->attributes_json()) std::abort();
}

}  // namespace

extern "C" int run_group_manifest(const std::uint8_t* data, std::size_t size) {
  open(std::as_bytes(std::span(data, size)));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos) return 0;
  auto document = parse_json_with_bytes(text.substr(0, line));
  if (!document.ok() || document->as_object() == nullptr) return 0;
  json::object_t fitted = *document->as_object();
  const std::string_view after = text.substr(line + 1);
  for (auto& [name, value] : fitted) {
    if (name != "members" || value.as_array() == nullptr || value.as_array()->empty()) continue;
    json::array_t members = *value.as_array();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i].as_object() == nullptr) return 0;
      const std::size_t next = after.find("\n{\"penstock_manifest\"", begin);
      const std::size_t end = i + 1 == members.size() || next == std::string_view::npos ? after.size() : next + 1;
      json::object_t member = *members[i].as_object();
      for (auto& [key, bytes] : member)
        if (key == "bytes") bytes = json(std::uint64_t{end - begin});
      members[i] = json(std::move(member));
      begin = end;
    }
    value = json(std::move(members));
  }
  const std::string whole = dump_json_with_bytes(json(std::move(fitted))) + "\n" + std::string(after);
  open(std::as_bytes(std::span(whole)));
  return 0;
}
