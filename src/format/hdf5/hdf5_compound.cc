#include "format/hdf5/hdf5_compound.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "format/hdf5/hdf5_element.h"

namespace penstock::inline v0 {
namespace {

// A name as one component of a path: not empty, and without a special meaning.
std::string field_name(const std::string& stored) {
  if (stored.empty()) return "\\x00";
  std::string out;
  const bool dots = stored == "." || stored == "..";
  for (const char each : stored) {
    if (each == '/' || dots)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(each)));
    else
      out += each;
  }
  return out;
}

std::optional<hdf5_type> type_of(const std::vector<hdf5_message>& header) {
  const hdf5_message* const message = find_message(header, hdf5_message::datatype);
  if (message == nullptr) return std::nullopt;
  hdf5_cursor cursor(message->body);
  auto type = parse_hdf5_type(cursor);
  return type.ok() ? std::optional(std::move(*type)) : std::nullopt;
}

const hdf5_type& without_arrays(const hdf5_type& type) noexcept {
  const hdf5_type* out = &type;
  while (out->what == hdf5_type::kind::array) out = &out->base[0];
  return *out;
}

std::vector<std::uint64_t> shape_of(const hdf5_type& type) {
  std::vector<std::uint64_t> out;
  for (const hdf5_type* each = &type; each->what == hdf5_type::kind::array; each = &each->base[0])
    out.insert(out.end(), each->extents.begin(), each->extents.end());
  return out;
}

/// The array of a member that arrays of compounds make. No factor is larger than the element: the product fits.
hdf5_type array_of(std::vector<std::uint64_t> shape, const hdf5_type& member) {
  if (shape.empty()) return member;
  hdf5_type out;
  out.what = hdf5_type::kind::array;
  out.bytes = member.bytes;
  for (const std::uint64_t each : shape) out.bytes *= static_cast<std::uint32_t>(each);
  out.extents = std::move(shape);
  out.base.push_back(member);
  return out;
}

}  // namespace

bool is_hdf5_member_group(const hdf5_type& type) {
  const hdf5_type& compound = without_arrays(type);
  if (compound.what != hdf5_type::kind::compound || compound.members.empty()) return false;
  const auto made = hdf5_element_of(compound);
  return !made.ok() && made.error().code() == errc::unsupported;
}

std::vector<hdf5_member_name> hdf5_field_names(const hdf5_type& of) {
  std::vector<hdf5_member_name> out;
  std::set<std::string> seen;
  for (const hdf5_member& each : without_arrays(of).members) {
    std::string name = field_name(each.name);
    if (seen.insert(name).second) out.push_back({std::move(name), is_hdf5_member_group(each.type)});
  }
  return out;
}

std::optional<hdf5_field> find_hdf5_field(const hdf5_type& of, std::string_view path) {
  hdf5_field out;
  std::vector<std::uint64_t> shape;
  const hdf5_type* in = &of;
  hdf5_field::part step{without_arrays(of).bytes, 0, 0};
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty() || name == ".") continue;
    if (!is_hdf5_member_group(*in)) return std::nullopt;
    const std::vector<hdf5_member>& members = without_arrays(*in).members;
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const hdf5_member& each) { return field_name(each.name) == name; });
    if (found == members.end()) return std::nullopt;
    const std::vector<std::uint64_t> level = shape_of(*in);
    if (!level.empty() && in != &of) {
      step.bytes = in->bytes;
      out.parts.push_back(step);
      step = {without_arrays(*in).bytes, 0, 0};
    }
    shape.insert(shape.end(), level.begin(), level.end());
    out.levels.push_back(level);
    step.offset += found->offset;
    out.path += (out.path.empty() ? "" : "/") + std::string(name);
    in = &found->type;
  }
  if (in == &of) return std::nullopt;
  step.bytes = in->bytes;
  out.parts.push_back(step);
  out.offset = out.parts.front().offset;
  out.type = array_of(std::move(shape), *in);
  return out;
}

result<hdf5_part_place> find_hdf5_part(hdf5_file& file, hdf5_tree& tree, std::string_view path) {
  hdf5_part_place out;
  auto found = tree.find(path);
  if (found.ok()) {
    out.at = std::move(*found);
    PENSTOCK_ASSIGN(const auto* header, tree.header(out.at.object));
    if (is_hdf5_dataset(*header)) out.type = type_of(*header);
    return out;
  }
  if (file.waiting() || tree.exit()) return std::move(found).error();
  for (std::size_t end = path.rfind('/'); end != std::string_view::npos && end != 0; end = path.rfind('/', end - 1)) {
    auto above = tree.find(path.substr(0, end));
    if (!above.ok()) continue;
    const auto header = tree.header(above->object);
    if (!header.ok() || !is_hdf5_dataset(**header)) break;
    const auto type = type_of(**header);
    auto field = type ? find_hdf5_field(*type, path.substr(end + 1)) : std::nullopt;
    if (!field) break;
    out.at = std::move(*above);
    out.type = field->type;
    out.field = std::move(field);
    return out;
  }
  return std::move(found).error();
}

}  // namespace penstock::inline v0
