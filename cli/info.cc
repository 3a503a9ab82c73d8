#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/printable.h"
#include "dimensions.h"
#include "run.h"
#include "tiff_info.h"
#include "values.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

/// Groups nested deeper than this count as a loop of links.
constexpr int kMostIndent = 64;
/// Values of attributes are shortened to this many bytes in text.
constexpr std::size_t kMostValueBytes = 160;

double decoded_bytes(const array& a) {
  double bytes = a.type().item_bytes();
  for (const std::uint64_t size : a.shape()) bytes *= static_cast<double>(size);
  return bytes;
}

json fill_json(const array& a) {
  return a.type().variable_length() || a.fill_value().empty() ? json() : item_json(a.type(), a.fill_value().data());
}

/// The fields of a structure, in their order.
json fields_json(const dtype& type) {
  json::array_t out;
  for (const dtype_field& each : type.fields()) {
    json::object_t field{{"name", each.name}, {"dtype", short_type_text(each.type)}};
    if (!each.shape.empty()) field.emplace_back("shape", to_json(each.shape));
    if (each.type.kind() == dtype_kind::structured) field.emplace_back("fields", fields_json(each.type));
    out.emplace_back(std::move(field));
  }
  return out;
}

json array_json(const array& a) {
  json names;
  if (!a.dimension_names().empty()) {
    json::array_t list;
    for (const auto& name : a.dimension_names()) list.push_back(name ? json(*name) : json());
    names = std::move(list);
  }
  const grid_counts counts = count_grid(a);
  json::object_t document{{"kind", "array"},
                          {"uri", a.uri()},
                          {"format", a.format()},
                          {"dtype", short_type_text(a.type())},
                          {"shape", to_json(a.shape())},
                          {"chunks", to_json(a.chunks())},
                          {"shards", a.shards() != nullptr ? to_json(*a.shards()) : json()},
                          {"cells", count_json(counts.cells)},
                          {"objects", count_json(counts.objects)},
                          {"decoded_bytes", count_json(decoded_bytes(a))},
                          {"fill_value", fill_json(a)},
                          {"codecs", parsed(a.codecs_json())},
                          {"dimension_names", std::move(names)},
                          {"attributes", parsed(a.attributes_json())}};
  if (a.type().kind() == dtype_kind::structured) document.insert(document.end(), {"fields", fields_json(a.type())});
  if (json most = most_json(a); most.as_array() != nullptr)
    document.insert(document.end(), {"maxshape", std::move(most)});
  // Only if the chunks have several lengths along a dimension.
  if (json lengths = chunk_lengths_json(a); lengths.as_array() != nullptr)
    document.insert(document.end(), {"chunk_lengths", std::move(lengths)});
  return document;
}

/// The number of elements of a list, or of characters of a text.
std::string size_text(const json& value) {
  if (const auto* list = value.as_array()) return counted(list->size(), "element");
  if (const auto* text = value.as_string()) {
    const auto characters =
        std::count_if(text->begin(), text->end(), [](unsigned char c) { return (c & 0xc0) != 0x80; });
    return counted(characters, "character");
  }
  return "an object";
}

std::string shortened(const json& value) {
  std::string text = value.dump();
  if (text.size() <= kMostValueBytes) return text;
  return fmt::format("{} ... ({})", first_characters(text, kMostValueBytes - 20), size_text(value));
}

std::string attribute_lines(const std::string& document, const std::string& indent) {
  const json attributes = parsed(document);
  std::string text;
  if (attributes.as_object() == nullptr) return text;
  for (const auto& [key, value] : *attributes.as_object())
    text += fmt::format("{}{}: {}\n", indent, printable(key), printable(shortened(value)));
  return text;
}

std::string attributes_text(const std::string& document) {
  const std::string lines = attribute_lines(document, "  ");
  return lines.empty() ? lines : "attributes\n" + lines;
}

std::string dimension_lines(const std::vector<dimension>& dimensions, const std::string& indent) {
  std::string text;
  for (const dimension& each : dimensions)
    text +=
        fmt::format("{}{} = {}{}\n", indent, printable(each.name), each.length, each.is_unlimited ? ", unlimited" : "");
  return text;
}

/// `(time=4, lat=10)`; without names `(4, 10)`.
std::string named_shape(const array& a) {
  if (a.dimension_names().empty()) return to_string(a.shape());
  std::vector<std::string> axes;
  for (std::size_t d = 0; d < a.shape().size(); ++d) {
    const auto& name = a.dimension_names()[d];
    axes.push_back(name ? fmt::format("{}={}", printable(*name), a.shape()[d]) : fmt::format("{}", a.shape()[d]));
  }
  return fmt::format("({}{})", fmt::join(axes, ", "), axes.size() == 1 && !a.dimension_names()[0] ? "," : "");
}

/// `float32 (time=4, lat=10), chunks (1, 10), zlib(level=4)`: without the properties that most arrays have, such as one
/// chunk in the usual byte order.
std::string variable_text(const array& a) {
  constexpr std::string_view kNext = " | ";
  std::string text = fmt::format("{} {}", printable(short_type_text(a.type())), named_shape(a));
  if (count_grid(a).cells > 1) text += fmt::format(", chunks {}", to_string(a.chunks()));
  std::string_view codecs = a.codecs_text();
  const std::string_view first = codecs.substr(0, codecs.find(kNext));
  if (first == "bytes" || first == "bytes(little)")
    codecs.remove_prefix(std::min(first.size() + kNext.size(), codecs.size()));
  if (!codecs.empty()) text += fmt::format(", {}", printable(codecs));
  return text;
}

std::string array_text(const array& a) {
  const grid_counts counts = count_grid(a);
  std::string text;
  const auto line = [&text](const char* label, const std::string& value) {
    text += fmt::format("{:<11} {}\n", label, printable(value));
  };
  line("array", a.uri());
  line("format", a.format());
  line("dtype", type_text(a.type()));
  line("shape", to_string(a.shape()));
  const json lengths = chunk_lengths_json(a);
  std::string chunks = lengths.as_array() != nullptr ? lengths.dump() : to_string(a.chunks());
  if (chunks.size() > 200) chunks = fmt::format("of several lengths, at most {}", to_string(a.chunks()));
  line("chunks", fmt::format("{}, {:.0f} of them", chunks, counts.cells));
  if (a.shards() != nullptr) line("shards", fmt::format("{}, {:.0f} of them", to_string(*a.shards()), counts.objects));
  line("decoded", bytes_text(decoded_bytes(a)));
  if (!a.type().variable_length() && !a.fill_value().empty()) {
    line("fill value", item_text(a.type(), a.fill_value().data()));
  }
  line("codecs", a.codecs_text());
  if (!a.dimension_names().empty()) {
    std::vector<std::string> names;
    for (const auto& name : a.dimension_names()) names.push_back(name.value_or("-"));
    line("dimensions", fmt::format("{}", fmt::join(names, ", ")));
  }
  if (const json most = most_json(a); most.as_array() != nullptr) line("maxshape", most.dump());
  return text + attributes_text(a.attributes_json());
}

/// The state while a group is described.
struct described_groups {
  bool with_details = false;                 ///< dimensions and attributes, not only names and shapes
  std::map<std::string, std::string> paths;  ///< paths by identity of the groups that were described
  dimension_lists dimensions;
};

/// Describes a group's children, in both forms at once. A child that cannot be opened is part of the description. The
/// content of a group that several links lead to is described once: with such links, a file of a few groups can have
/// more paths than can be written.
struct tree {
  explicit tree(described_groups& described) noexcept : described_(described) {}

  json::array_t documents;
  std::string text;
  std::vector<dimension> dimensions;
  bool complete = true;

  void describe(const opened_group& parent, const std::string& path, const std::string& indent, int depth) {
    if (std::string identity = parent.identity(); !identity.empty())
      described_.paths.emplace(std::move(identity), path);
    auto names = parent.keys();
    if (!names.ok()) return failed("", indent, true, names.error());
    collected_dimensions collected;
    for (std::size_t i = 0; i < names->size(); ++i)
      child(parent, path, (*names)[i], indent, i + 1 == names->size(), depth, collected);
    auto listed = described_.dimensions.of(parent);
    dimensions = listed.ok() && *listed ? std::move(**listed) : collected.take();
  }

 private:
  void child(const opened_group& parent, const std::string& path, const std::string& name, const std::string& indent,
             bool last, int depth, collected_dimensions& collected) {
    auto found = parent.open(name);
    if (!found.ok()) return failed(name, indent, last, found.error());
    const char* branch = last ? "└── " : "├── ";
    const std::string inner = indent + (last ? "    " : "│   ");
    if (const auto* a = std::get_if<array>(&*found)) {
      collected.add(*a);
      json::object_t document = *array_json(*a).as_object();
      document.insert(document.begin(), {"name", name});
      documents.emplace_back(std::move(document));
      const std::string what = described_.with_details
                                   ? variable_text(*a)
                                   : fmt::format("{} {}", printable(short_type_text(a->type())), to_string(a->shape()));
      text += fmt::format("{}{}{}  {}\n", indent, branch, printable(name), painted(color::dim, what));
      if (described_.with_details) text += attribute_lines(a->attributes_json(), inner + "    ");
      return;
    }
    const opened_group& g = *std::get<std::shared_ptr<const opened_group>>(*found);
    if (const auto known = described_.paths.find(g.identity()); known != described_.paths.end()) {
      text += fmt::format("{}{}{}/  -> {}\n", indent, branch, printable(name), printable(known->second));
      documents.emplace_back(json::object_t{
          {"name", name}, {"kind", "group"}, {"uri", g.uri()}, {"format", g.format()}, {"same_as", known->second}});
      return;
    }
    text += fmt::format("{}{}{}\n", indent, branch, painted(color::blue, printable(name) + "/"));
    tree below(described_);
    const std::string own_path = (path == "/" ? path : path + "/") + name;
    if (depth < kMostIndent) below.describe(g, own_path, inner, depth + 1);
    if (described_.with_details) {
      if (!below.dimensions.empty()) text += inner + "dimensions\n" + dimension_lines(below.dimensions, inner + "  ");
      if (const std::string lines = attribute_lines(g.attributes_json(), inner + "  "); !lines.empty())
        text += inner + "attributes\n" + lines;
    }
    text += below.text;
    complete = complete && below.complete;
    documents.emplace_back(json::object_t{{"name", name},
                                          {"kind", "group"},
                                          {"uri", g.uri()},
                                          {"format", g.format()},
                                          {"dimensions", to_json(below.dimensions)},
                                          {"attributes", parsed(g.attributes_json())},
                                          {"children", std::move(below.documents)}});
  }

  void failed(const std::string& name, const std::string& indent, bool last, const error& why) {
    // Objects that this release cannot read are listed: their line has the reason, as for `check`.
    complete = complete && why.code() == errc::unsupported;
    text += fmt::format("{}{}{}  {}: {}\n", indent, last ? "└── " : "├── ", printable(name), to_string(why.code()),
                        printable(why.message()));
    documents.emplace_back(json::object_t{{"name", name}, {"error", to_json(why)}});
  }

  described_groups& described_;
};

int describe_group(const session& speak, const opened_group& g, bool with_details) {
  described_groups described;
  described.with_details = with_details;
  tree children(described);
  children.describe(g, "/", "", 0);
  int status = kOk;
  if (speak.as_json) {
    status = speak.print_document(json::object_t{{"kind", "group"},
                                                 {"uri", g.uri()},
                                                 {"format", g.format()},
                                                 {"consolidated", g.consolidated()},
                                                 {"dimensions", to_json(children.dimensions)},
                                                 {"attributes", parsed(g.attributes_json())},
                                                 {"children", std::move(children.documents)}});
  } else if (with_details) {
    const std::string dimensions = dimension_lines(children.dimensions, "  ");
    status = speak.print(fmt::format("{:<11} {}\n{:<11} {}{}\n{}{}{}", "group", printable(g.uri()), "format",
                                     g.format(), g.consolidated() ? ", consolidated" : "",
                                     dimensions.empty() ? dimensions : "dimensions\n" + dimensions,
                                     attributes_text(g.attributes_json()), children.text));
  } else {
    status = speak.print(fmt::format("{}\n{}", printable(g.uri()), children.text));
  }
  return status == kOk && !children.complete ? kFailed : status;
}

int info(const session& speak, const std::string& uri) {
  auto found = open_node(speak, uri);
  if (!found.ok()) return speak.fail(found.error());
  if (const auto* g = std::get_if<std::shared_ptr<const opened_group>>(&*found))
    return describe_group(speak, **g, true);
  const array& a = std::get<array>(*found);
  if (a.format() == "tiff") {
    const auto document = tiff_document(a, uri, speak.namer);
    if (!document.ok()) return speak.fail(document.error());
    return speak.as_json ? speak.print_document(*document) : speak.print(tiff_text(*document));
  }
  return speak.as_json ? speak.print_document(array_json(a)) : speak.print(array_text(a));
}

int show_tree(const session& speak, const std::string& uri) {
  auto found = open_node(speak, uri);
  if (!found.ok()) return speak.fail(found.error());
  if (const auto* g = std::get_if<std::shared_ptr<const opened_group>>(&*found))
    return describe_group(speak, **g, false);
  const array& a = std::get<array>(*found);
  if (speak.as_json) return speak.print_document(array_json(a));
  const std::string type = printable(short_type_text(a.type()));
  return speak.print(fmt::format("{}  {} {}\n", printable(a.uri()), type, to_string(a.shape())));
}

}  // namespace

void add_info(command_line& line) {
  auto uri = std::make_shared<std::string>();
  command verb = line.add("info", "Describe an array, or a group and its members");
  verb.required("URI", *uri, "A path or a URI");
  verb.json("Print one JSON document");
  verb.footer("Examples:\n  penstock info data.zarr\n  penstock info data.zarr/t2m --json");
  verb.runs([uri](const session& speak) { return info(speak, *uri); });
}

void add_tree(command_line& line) {
  auto uri = std::make_shared<std::string>();
  command verb = line.add("tree", "Show the members of a group: names, types and shapes");
  verb.required("URI", *uri, "A path or a URI");
  verb.json("Print one JSON document");
  verb.footer("Examples:\n  penstock tree data.zarr\n  penstock tree archive.zip --json");
  verb.runs([uri](const session& speak) { return show_tree(speak, *uri); });
}

}  // namespace penstock::inline v0::cli
