#include "format/hdf5/hdf5_describe.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "format/hdf5/hdf5_attributes.h"
#include "format/hdf5/hdf5_cache_image.h"
#include "format/hdf5/hdf5_dataset.h"
#include "format/hdf5/hdf5_element.h"
#include "format/hdf5/hdf5_group.h"
#include "format/hdf5/hdf5_heaps.h"
#include "format/hdf5/hdf5_mappings.h"
#include "format/hdf5/hdf5_object.h"
#include "format/hdf5/hdf5_type.h"
#include "format/hdf5/hdf5_values.h"

namespace penstock::inline v0 {
namespace {

/// A file is read once for each kind of object, and shared parts once for each object that has them.
constexpr std::uint64_t kReadings = 32;
constexpr std::size_t kMostPathBytes = 4096;

struct named_object {
  std::string path;
  std::uint64_t address = 0;
};

json numbers_json(const std::vector<std::uint64_t>& numbers) {
  json::array_t out;
  for (const std::uint64_t each : numbers) out.emplace_back(each);
  return json(std::move(out));
}

// "all", "none", or an object of lists; a missing limit is null.
json selection_json(const hdf5_selection& from) {
  using kind = hdf5_selection::kind;
  if (from.what == kind::all) return json("all");
  if (from.what == kind::none) return json("none");
  json::object_t out;
  if (from.what != kind::regular) {
    out.emplace_back(from.what == kind::points ? "points" : "boxes", numbers_json(from.corners));
    return json(std::move(out));
  }
  json::array_t start, stride, count, block;
  const auto limit = [](std::uint64_t number) { return number == byte_range::kAll ? json() : json(number); };
  for (const hdf5_selection::axis& each : from.axes) {
    start.emplace_back(each.start);
    stride.emplace_back(each.stride);
    count.emplace_back(limit(each.count));
    block.emplace_back(limit(each.block));
  }
  out.emplace_back("start", std::move(start));
  out.emplace_back("stride", std::move(stride));
  out.emplace_back("count", std::move(count));
  out.emplace_back("block", std::move(block));
  return json(std::move(out));
}

class describer {
 public:
  explicit describer(hdf5_file& file) noexcept : file_(file), heap_(file) {}

  result<json> describe() {
    std::vector<named_object> level{{"/", file_.root()}};
    seen_.insert(file_.root());
    while (!level.empty()) {
      std::vector<named_object> next;
      for (const named_object& each : level) objects_.emplace_back(object(each, next));
      level = std::move(next);
    }
    if (!failed_.empty()) return hdf5_damaged(failed_);
    json::object_t out;
    out.emplace_back("objects", std::move(objects_));
    return json(std::move(out));
  }

 private:
  using members = json::object_t;

  json object(const named_object& at, std::vector<named_object>& next) {
    members out;
    json::array_t errors;
    out.emplace_back("path", hdf5_text(at.path));
    out.emplace_back("address", at.address);
    if (auto described = describe(at, out, errors, next); !described.ok())
      errors.emplace_back(hdf5_text(described.error().message()));
    if (!errors.empty()) out.emplace_back("errors", std::move(errors));
    return json(std::move(out));
  }

  result<> describe(const named_object& at, members& out, json::array_t& errors, std::vector<named_object>& next) {
    PENSTOCK_ASSIGN(auto header, read_hdf5_object(file_, at.address));
    PENSTOCK_TRY(resolve_hdf5_shared(file_, header));
    const bool dataset = find_message(header, hdf5_message::data_layout) != nullptr;
    const bool group = !dataset && is_hdf5_group(header);
    const bool type = !dataset && !group && find_message(header, hdf5_message::datatype) != nullptr;
    out.emplace_back("kind", dataset ? "dataset" : group ? "group" : type ? "type" : "unknown");
    const auto note = [&](result<> part) {
      if (!part.ok()) errors.emplace_back(hdf5_text(part.error().message()));
    };
    note(attributes(header, out));
    if (group) note(links(at, header, out, next));
    if (dataset || type) note(element_type(header, out));
    if (dataset) note(shape(header, out));
    if (dataset) note(storage(header, out));
    return {};
  }

  result<> attributes(const std::vector<hdf5_message>& header, members& out) {
    PENSTOCK_ASSIGN(const auto listed, list_hdf5_attributes(file_, header));
    members all;
    for (const hdf5_attribute& each : listed) {
      auto value = hdf5_attribute_json(file_, heap_, each);
      all.emplace_back(
          hdf5_text(each.name),
          value.ok() ? std::move(*value) : json(fmt::format("<not readable: {}>", hdf5_text(value.error().message()))));
    }
    out.emplace_back("attributes", std::move(all));
    return {};
  }

  result<> links(const named_object& at, const std::vector<hdf5_message>& header, members& out,
                 std::vector<named_object>& next) {
    static constexpr const char* kKinds[] = {"hard", "soft", "external", "user"};
    PENSTOCK_ASSIGN(const auto listed, list_hdf5_links(file_, header));
    json::array_t all;
    for (const hdf5_link& each : listed) {
      members link;
      link.emplace_back("name", hdf5_text(each.name));
      link.emplace_back("kind", kKinds[static_cast<std::size_t>(each.what)]);
      if (each.what == hdf5_link::kind::hard) link.emplace_back("address", each.object);
      if (each.what == hdf5_link::kind::soft || each.what == hdf5_link::kind::external)
        link.emplace_back("target", hdf5_text(each.target));
      if (each.what == hdf5_link::kind::external) link.emplace_back("file", hdf5_text(each.file));
      all.emplace_back(std::move(link));
      if (each.what == hdf5_link::kind::hard && seen_.insert(each.object).second) follow(at, each, next);
    }
    out.emplace_back("links", std::move(all));
    return {};
  }

  void follow(const named_object& from, const hdf5_link& link, std::vector<named_object>& next) {
    std::string path = (from.path == "/" ? "" : from.path) + "/" + link.name;
    auto counted = file_.spend(path.size());
    if (!counted.ok()) failed_ = "more objects than the file can contain";
    if (path.size() > kMostPathBytes) failed_ = fmt::format("a path of more than {} bytes", kMostPathBytes);
    if (failed_.empty()) next.push_back({std::move(path), link.object});
  }

  static result<> element_type(const std::vector<hdf5_message>& header, members& out) {
    const hdf5_message* const found = find_message(header, hdf5_message::datatype);
    if (found == nullptr) return hdf5_damaged("the dataset has no datatype");
    hdf5_cursor cursor(found->body);
    PENSTOCK_ASSIGN(const hdf5_type type, parse_hdf5_type(cursor));
    out.emplace_back("type", hdf5_type_json(type));
    const auto made = hdf5_element_of(type);
    json::object_t items;
    if (made.ok()) {
      items.emplace_back("dtype", made->dtype);
      items.emplace_back("shape", numbers_json(made->shape));
      items.emplace_back("codecs", made->codecs());
    } else {
      items.emplace_back("error", made.error().message());
    }
    out.emplace_back("items", std::move(items));
    return {};
  }

  result<> shape(const std::vector<hdf5_message>& header, members& out) {
    const hdf5_message* const found = find_message(header, hdf5_message::dataspace);
    if (found == nullptr) return hdf5_damaged("the dataset has no dataspace");
    PENSTOCK_ASSIGN(const hdf5_dataspace space, parse_hdf5_dataspace(file_, found->body));
    if (space.null) {
      out.emplace_back("shape", json());
      return {};
    }
    json::array_t extents, most;
    for (const std::uint64_t each : space.shape.extents) extents.emplace_back(each);
    for (const std::uint64_t each : space.shape.most) most.emplace_back(each == byte_range::kAll ? json() : json(each));
    out.emplace_back("shape", std::move(extents));
    out.emplace_back("maxshape", std::move(most));
    return {};
  }

  result<> storage(const std::vector<hdf5_message>& header, members& out) {
    static constexpr const char* kLayouts[] = {"compact", "contiguous", "chunked", "virtual"};
    PENSTOCK_ASSIGN(const hdf5_layout layout, parse_hdf5_layout(file_, header));
    out.emplace_back("layout", kLayouts[static_cast<std::size_t>(layout.what)]);
    if (layout.what == hdf5_layout::kind::chunked) {
      json::array_t chunk;
      for (const std::uint64_t each : layout.chunk) chunk.emplace_back(each);
      out.emplace_back("chunks", std::move(chunk));
    }
    PENSTOCK_ASSIGN(const auto pipeline, parse_hdf5_filters(header));
    json::array_t filters, codecs;
    for (const hdf5_filter& each : pipeline) {
      auto codec = hdf5_codec_of(each, layout.element_bytes);
      codecs.emplace_back(codec.ok() ? std::move(*codec) : json(codec.error().message()));
      json::array_t values;
      for (const std::uint32_t value : each.values) values.emplace_back(std::uint64_t{value});
      filters.emplace_back(json::array_t{json(std::uint64_t{each.id}), json(std::move(values))});
    }
    out.emplace_back("filters", std::move(filters));
    out.emplace_back("codecs", std::move(codecs));
    PENSTOCK_ASSIGN(const auto external, read_hdf5_external(file_, header));
    json::array_t files;
    for (const hdf5_external_part& each : external)
      files.emplace_back(json::array_t{json(hdf5_text(each.file)), json(each.offset), json(each.bytes)});
    if (!files.empty()) out.emplace_back("external", std::move(files));
    if (layout.what == hdf5_layout::kind::mapped) PENSTOCK_TRY(mappings(layout, out));
    return fill(header, out);
  }

  result<> mappings(const hdf5_layout& layout, members& out) {
    PENSTOCK_ASSIGN(const auto listed, read_hdf5_mappings(file_, layout));
    json::array_t all;
    for (const hdf5_mapping& each : listed)
      all.emplace_back(json::array_t{json(hdf5_text(each.file)), json(hdf5_text(each.dataset)),
                                     selection_json(each.from), selection_json(each.to)});
    out.emplace_back("mappings", std::move(all));
    return {};
  }

  result<> fill(const std::vector<hdf5_message>& header, members& out) {
    PENSTOCK_ASSIGN(const hdf5_fill fill, parse_hdf5_fill(header));
    if (fill.what != hdf5_fill::kind::value) {
      out.emplace_back("fill", fill.what == hdf5_fill::kind::zeros ? "zeros" : "undefined");
      return {};
    }
    const hdf5_message* const message = find_message(header, hdf5_message::datatype);
    if (message == nullptr) return {};  // `element_type` reports this error
    hdf5_cursor cursor(message->body);
    PENSTOCK_ASSIGN(const hdf5_type type, parse_hdf5_type(cursor));
    PENSTOCK_ASSIGN(json value, hdf5_element_json(file_, heap_, type, fill.bytes));
    out.emplace_back("fill", json::array_t{std::move(value)});
    return {};
  }

  hdf5_file& file_;
  hdf5_global_heap heap_;
  json::array_t objects_;
  std::unordered_set<std::uint64_t> seen_;  // addresses of object headers
  std::string failed_;
};

}  // namespace

result<json> describe_hdf5(hdf5_source& from, hdf5_checksums sums) {
  PENSTOCK_ASSIGN(hdf5_file file, hdf5_file::open(from, sums, kReadings));
  PENSTOCK_TRY(read_hdf5_cache_image(file));
  return describer(file).describe();
}

}  // namespace penstock::inline v0
