#include <fmt/format.h>

#include <algorithm>

#include <penstock/variable.h>
#include "base/counted.h"
#include "base/printable.h"
#include "csv.h"
#include "run.h"
#include "values.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

struct list_arguments {
  std::string uri, format = "text";
  bool long_lines = false, only_names = false;
};

/// One line of the list.
struct row {
  std::string name, type, shape, chunks, bytes, codecs;
  bool is_group = false;
  json document;
  std::string bytes_in_csv = {};  ///< a number without unit
};

double listed_bytes(const array& a) {
  double bytes = a.type().item_bytes();
  for (const std::uint64_t size : a.shape()) bytes *= static_cast<double>(size);
  return bytes;
}

row row_of(const std::string& name, const opened& found) {
  row out;
  out.name = name;
  if (const auto* a = std::get_if<array>(&found)) {
    out.type = short_type_text(a->type());
    out.shape = to_string(a->shape());
    out.chunks = to_string(a->chunks());
    out.bytes = bytes_text(listed_bytes(*a));
    out.bytes_in_csv = fmt::format("{:.0f}", listed_bytes(*a));
    out.codecs = a->codecs_text();
    out.document = json::object_t{{"name", name},
                                  {"kind", "array"},
                                  {"dtype", out.type},
                                  {"shape", to_json(a->shape())},
                                  {"chunks", to_json(a->chunks())},
                                  {"decoded_bytes", count_json(listed_bytes(*a))},
                                  {"codecs", out.codecs}};
    return out;
  }
  out.is_group = true;
  out.type = "group";
  out.document = json::object_t{{"name", name}, {"kind", "group"}};
  return out;
}

/// Characters of UTF-8 text, which columns are padded by.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

std::string text_of(std::vector<row> rows, bool long_lines) {
  for (row& each : rows)
    for (std::string* const text : {&each.name, &each.type, &each.codecs}) *text = printable(*text);
  std::size_t names = 0, types = 0, shapes = 0, bytes = 0, chunks = 0;
  for (const row& each : rows) {
    names = std::max(names, width_of(each.name) + (each.is_group ? 1 : 0));
    types = std::max(types, each.type.size());
    shapes = std::max(shapes, each.shape.size());
    bytes = std::max(bytes, each.bytes.size());
    chunks = std::max(chunks, each.chunks.size());
  }
  std::string text;
  for (const row& each : rows) {
    const std::string name = padded(each.name + (each.is_group ? "/" : ""), names);
    std::string line = each.is_group ? painted(color::blue, name) : name;
    const bool is_array = !each.is_group && !each.shape.empty();
    line += "  " + painted(color::dim, is_array ? padded(each.type, types) : each.type);
    if (is_array) {
      line += fmt::format("  {}  {:>{}}", padded(each.shape, shapes), each.bytes, bytes);
      if (long_lines) line += fmt::format("  chunks {}  {}", padded(each.chunks, chunks), each.codecs);
    }
    text += line + "\n";
  }
  return text;
}

std::string csv_of(const std::vector<row>& rows) {
  const auto field = [](const std::string& value) {
    const variable_item item{reinterpret_cast<const std::byte*>(value.data()), value.size()};
    return csv_text(dtype::variable_utf8(), reinterpret_cast<const std::byte*>(&item));
  };
  std::string text = "name,dtype,shape,chunks,size,codecs\n";
  for (const row& each : rows)
    text += fmt::format("{},{},{},{},{},{}\n", field(each.name), field(each.type), field(each.shape),
                        field(each.chunks), each.bytes_in_csv, field(each.codecs));
  return text;
}

int list(const session& speak, const list_arguments& given) {
  if (given.format == "csv" && speak.as_json) return speak.refuse("--json and --format csv both write to stdout");
  if (given.format == "csv" && given.only_names) return speak.refuse("--names has no columns: omit --format csv");
  auto found = open_node(speak, given.uri);
  if (!found.ok()) return speak.fail(found.error());
  std::vector<row> rows;
  bool complete = true;
  if (const auto* g = std::get_if<std::shared_ptr<const opened_group>>(&*found)) {
    auto names = (*g)->keys();
    if (!names.ok()) return speak.fail(names.error());
    for (const std::string& name : *names) {
      if (given.only_names) {
        rows.push_back({name, "", "", "", "", "", false, json(name)});
        continue;
      }
      auto child = (*g)->open(name);
      if (child.ok()) {
        rows.push_back(row_of(name, *child));
        continue;
      }
      // Objects that this release cannot read are listed: their line has the reason, as for `check`.
      complete = complete && child.error().code() == errc::unsupported;
      rows.push_back({name, fmt::format("{}: {}", to_string(child.error().code()), child.error().message()), "", "", "",
                      "", false, json(json::object_t{{"name", name}, {"error", to_json(child.error())}})});
    }
  } else {
    rows.push_back(row_of(given.uri, *found));
  }
  int status = kOk;
  if (speak.as_json) {
    json::array_t documents;
    for (row& each : rows) documents.push_back(std::move(each.document));
    status = speak.print_document(json::object_t{{"uri", given.uri}, {"members", std::move(documents)}});
  } else if (given.only_names) {
    std::string text;
    for (const row& each : rows) text += printable(each.name) + "\n";
    status = speak.print(text);
  } else {
    status =
        speak.print(given.format == "csv" ? csv_for(STDOUT_FILENO, csv_of(rows)) : text_of(rows, given.long_lines));
  }
  return status == kOk && !complete ? kFailed : status;
}

}  // namespace

void add_ls(command_line& line) {
  auto given = std::make_shared<list_arguments>();
  command verb = line.add("ls", "List the members of a group, one line for each");
  verb.required("URI", given->uri, "A path or a URI");
  verb.flag("-l,--long", given->long_lines, "Show chunks and codecs, too");
  verb.flag("-1,--names", given->only_names, "Show names only; no member is opened");
  verb.option("--format", given->format, {"text", "csv"}, "Columns of text, or CSV with a line of titles");
  verb.json("Print one JSON document");
  verb.footer("Examples:\n  penstock ls data.zarr\n  penstock ls s3://bucket/era5.zarr --anon -l");
  verb.runs([given](const session& speak) { return list(speak, *given); });
}

}  // namespace penstock::inline v0::cli
