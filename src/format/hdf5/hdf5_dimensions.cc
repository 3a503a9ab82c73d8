#include "format/hdf5/hdf5_dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_element.h"
#include "format/hdf5/hdf5_values.h"

namespace penstock::inline v0 {
namespace {

constexpr unsigned kMostLevels = 1000;

struct dimension_length {
  std::uint64_t elements = 0;
  bool grows = false;
  friend auto operator<=>(const dimension_length&, const dimension_length&) = default;
};

struct numbered_dataset {
  std::string group, name;  // the path of the group, and the name shown for it
  std::vector<std::optional<std::string>> names;
  std::vector<dimension_length> lengths;
  bool is_scale = false;
};

class dimension_walk {
 public:
  dimension_walk(hdf5_file& file, hdf5_tree& tree) noexcept : file_(file), tree_(tree) {}

  result<> read() { return enter({file_.root(), {}, {}}, {}, 0); }

  const std::vector<numbered_dataset>& datasets() const noexcept { return out_; }
  std::map<std::string, std::string>& links() noexcept { return links_; }

 private:
  // Datasets of subgroups are numbered first.
  result<> enter(const hdf5_place& group, const std::string& path, unsigned level) {
    if (const auto [first, is_new] = seen_.emplace(group.object, path); !is_new) {
      links_.emplace(path, first->second);
      return {};
    }
    if (level > kMostLevels)
      return error(errc::unsupported, fmt::format("groups of more than {} levels are not readable", kMostLevels));
    PENSTOCK_ASSIGN(const auto members, tree_.members_in_file_order(group));
    std::vector<numbered_dataset> own;
    for (const hdf5_member_name& each : members) {
      const auto at = tree_.member(group, each.name);
      if (!at.ok()) continue;  // opening it fails
      if (each.is_group) {
        auto entered = enter(*at, path.empty() ? each.name : path + "/" + each.name, level + 1);
        if (!entered.ok() && !file_.waiting()) return entered;
        continue;
      }
      auto made = dataset(*at);
      if (!made.ok()) continue;
      made->group = path;
      made->name = each.name;
      own.push_back(std::move(*made));
    }
    std::move(own.begin(), own.end(), std::back_inserter(out_));
    return {};
  }

  result<numbered_dataset> dataset(const hdf5_place& at) {
    PENSTOCK_ASSIGN(const auto* header, tree_.header(at.object));
    PENSTOCK_ASSIGN(const hdf5_shape shape, parse_hdf5_shape(file_, *header));
    numbered_dataset out;
    PENSTOCK_ASSIGN(out.names, tree_.dimension_names(at, shape.extents.size()));
    PENSTOCK_ASSIGN(out.is_scale, tree_.is_scale(at.object));
    for (std::size_t d = 0; d < shape.extents.size(); ++d)
      out.lengths.push_back({shape.extents[d], shape.most[d] == byte_range::kAll});
    if (const hdf5_message* const type = find_message(*header, hdf5_message::datatype)) {
      hdf5_cursor cursor(type->body);
      const auto parsed = parse_hdf5_type(cursor);
      const hdf5_type* inner = parsed.ok() ? &*parsed : nullptr;
      for (; inner != nullptr && inner->what == hdf5_type::kind::array; inner = &inner->base[0])
        for (const std::uint64_t each : inner->extents) out.lengths.push_back({each, false});
    }
    out.names.resize(out.lengths.size());
    return out;
  }

  hdf5_file& file_;
  hdf5_tree& tree_;
  std::map<std::uint64_t, std::string> seen_;
  std::map<std::string, std::string> links_;
  std::vector<numbered_dataset> out_;
};

/// For each group and name, the position of a dimension among those of its group.
using dimension_places = std::map<std::pair<std::string, std::string>, std::size_t>;

// The dimension of that name for the datasets of a group: the group's own, or that of the nearest group above.
hdf5_dimension* visible_dimension(std::map<std::string, std::vector<hdf5_dimension>>& groups,
                                  const dimension_places& places, std::string group, const std::string& name) {
  for (;;) {
    if (const auto here = places.find({group, name}); here != places.end()) return &groups.at(group)[here->second];
    if (group.empty()) return nullptr;
    const std::size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

// The dimensions that the scales of each group define. Unlimited ones are as long as their longest dataset.
std::map<std::string, std::vector<hdf5_dimension>> defined_dimensions(const std::vector<numbered_dataset>& datasets) {
  std::map<std::string, std::vector<hdf5_dimension>> out;
  dimension_places places;
  for (const numbered_dataset& each : datasets) {
    if (!each.is_scale || each.lengths.empty()) continue;
    std::vector<hdf5_dimension>& of_group = out[each.group];
    places.emplace(std::pair(each.group, each.name), of_group.size());
    of_group.push_back({each.name, each.lengths[0].elements, each.lengths[0].grows});
  }
  for (const numbered_dataset& each : datasets) {
    for (std::size_t d = 0; d < each.names.size(); ++d) {
      if (!each.names[d]) continue;
      hdf5_dimension* const of = visible_dimension(out, places, each.group, *each.names[d]);
      if (of != nullptr && of->is_unlimited) of->length = std::max(of->length, each.lengths[d].elements);
    }
  }
  for (auto& [group, dimensions] : out)
    for (hdf5_dimension& each : dimensions) each.name = hdf5_text(each.name);
  return out;
}

}  // namespace

result<hdf5_dimension_names> name_hdf5_dimensions(hdf5_file& file, hdf5_tree& tree) {
  dimension_walk walk(file, tree);
  PENSTOCK_TRY(walk.read());
  // For each group and length, the names in the order in which they were given.
  std::map<std::string, std::map<dimension_length, std::vector<std::string>>> known;
  std::uint64_t number = 0;
  for (const numbered_dataset& each : walk.datasets()) {
    if (!each.is_scale || each.lengths.empty()) continue;
    known[each.group][each.lengths[0]].push_back(each.name);
    ++number;
  }
  hdf5_dimension_names out;
  out.links = std::move(walk.links());
  out.groups = defined_dimensions(walk.datasets());
  for (const numbered_dataset& each : walk.datasets()) {
    auto& of_group = known[each.group];
    std::vector<std::optional<std::string>> names = each.names;
    for (std::size_t d = 0; d < names.size(); ++d) {
      if (names[d]) continue;
      std::vector<std::string>& alike = of_group[each.lengths[d]];
      const auto unused = std::find_if(alike.begin(), alike.end(), [&](const std::string& one) {
        return std::find(names.begin(), names.end(), one) == names.end();
      });
      if (unused != alike.end()) {
        names[d] = *unused;
      } else {
        names[d] = fmt::format("phony_dim_{}", number++);
        alike.push_back(*names[d]);
      }
    }
    std::vector<std::string>& to = out.datasets[each.group.empty() ? each.name : each.group + "/" + each.name];
    for (const auto& name : names) to.push_back(hdf5_text(*name));
  }
  return out;
}

}  // namespace penstock::inline v0
