// The contents of raw files: from the caller, or from JSON documents next to them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json_bytes.h"
#include "driver/complaints.h"
#include "driver/for_each_file.h"
#include "driver/found_shards.h"
#include "engine/blocking_read.h"
#include "store/names_sink.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kCommonSidecar = "_meta.json";  // describes all files of a folder
/// A document may have the rows of each file of a folder by name.
constexpr std::uint64_t kMostSidecarBytes = std::uint64_t{256} << 20;
constexpr std::size_t kMostShown = 400;  // characters of a document in an error

/// The document that describes a file.
struct sidecar {
  std::string key;  ///< empty: none
  std::shared_ptr<const json> members;
};

/// The facts in a document about one file.
struct told_shard {
  std::string dtype;
  std::optional<extents> row_shape;
  std::optional<std::uint64_t> rows;
  std::uint64_t offset = 0;
  bool fortran_order = false;
};

std::string shown(const json& value) {
  std::string text = dump_json_with_bytes(value);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return text;
}

std::string folder_of_key(std::string_view key) {
  const std::size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? std::string() : std::string(key.substr(0, slash + 1));
}

std::string without_ending(std::string_view key) {
  const std::size_t begin = key.rfind('/') + 1;  // 0 without a '/': npos + 1 is 0
  const std::size_t name = key.find_first_not_of('.', begin);
  const std::size_t dot = key.rfind('.');
  const bool has = name != std::string_view::npos && dot != std::string_view::npos && dot > name;
  return std::string(has ? key.substr(0, dot) : key);
}

class sidecar_names final : public names_sink {
 public:
  bool key(std::string_view key, std::uint64_t) override {
    if (key.ends_with(".json")) found.emplace(key);
    return true;
  }
  std::unordered_set<std::string> found;
};

/// A folder of the files: which documents it has, and the document for all its files.
struct sidecar_folder {
  std::optional<std::unordered_set<std::string>> names;  ///< nothing: the store does not list
  sidecar common;
  std::optional<error> failed;
};

/// The object at `key`; null: it does not exist, or is another kind of document.
result<std::shared_ptr<const json>> read_sidecar(const store& from, const std::string& key) {
  auto read = read_and_wait(from, key, {}, kMostSidecarBytes);
  if (!read.ok()) {
    if (read.error().code() == errc::not_found) return std::shared_ptr<const json>();
    return std::move(read).error().note(fmt::format("reading '{}'", key));
  }
  auto document = parse_json_with_bytes({reinterpret_cast<const char*>(read->bytes.data()), read->bytes.size()});
  if (!document.ok())
    return error(errc::invalid_argument, fmt::format("'{}' is not JSON: {}", key, document.error().message()));
  if (document->as_object() == nullptr) return std::shared_ptr<const json>();
  return std::make_shared<const json>(std::move(*document));
}

sidecar_folder look_into(const store& from, const std::string& folder) {
  sidecar_folder out;
  sidecar_names sink;
  if (auto listed = from.list(folder, listing::children, sink); listed.ok())
    out.names = std::move(sink.found);
  else if (listed.error().code() != errc::unsupported)
    out.failed = std::move(listed).error();
  std::string key = folder + std::string(kCommonSidecar);
  if (out.failed || (out.names && !out.names->contains(key))) return out;
  auto common = read_sidecar(from, key);
  if (!common.ok())
    out.failed = std::move(common).error();
  else if (*common != nullptr)
    out.common = {std::move(key), std::move(*common)};
  return out;
}

result<sidecar> find_sidecar(const store& from, const std::string& key, const sidecar_folder& folder) {
  for (std::string name : {key + ".json", without_ending(key) + ".json"}) {
    if (folder.names && !folder.names->contains(name)) continue;
    PENSTOCK_ASSIGN(std::shared_ptr<const json> members, read_sidecar(from, name));
    if (members != nullptr) return sidecar{std::move(name), std::move(members)};
  }
  return folder.common;
}

/// The document of each file: its own, or its folder's.
result<std::vector<sidecar>> find_sidecars(const found_shards& of, context& with) {
  std::map<std::string, sidecar_folder> folders;
  for (const std::string& key : of.keys) folders.try_emplace(folder_of_key(key));
  std::vector<std::pair<const std::string, sidecar_folder>*> each;
  for (auto& folder : folders) each.push_back(&folder);
  for_each_file(each.size(), *of.from, with,
                [&](std::size_t i) { each[i]->second = look_into(*of.from, each[i]->first); });
  for (auto* const folder : each)
    if (folder->second.failed) return std::move(*folder->second.failed);
  std::vector<sidecar> found(of.keys.size());
  std::vector<std::optional<error>> failed(of.keys.size());
  for_each_file(of.keys.size(), *of.from, with, [&](std::size_t i) {
    auto one = find_sidecar(*of.from, of.keys[i], folders.find(folder_of_key(of.keys[i]))->second);
    if (one.ok())
      found[i] = std::move(*one);
    else
      failed[i] = std::move(one).error();
  });
  for (std::optional<error>& why : failed)
    if (why) return std::move(*why);
  return found;
}

/// Lengths of dimensions: a list of numbers, at most `most`, or one number.
result<extents> lengths_of(const std::string& what, const json& value, std::size_t most = kMaxRank) {
  extents out;
  std::uint64_t length = 0;
  const json::array_t* const list = value.as_array();
  if (list == nullptr && value.get(length)) {
    out.push_back(length);
    return out;
  }
  bool good = list != nullptr && list->size() <= most;
  for (std::size_t i = 0; good && i < list->size(); ++i) {
    good = (*list)[i].get(length);
    out.push_back(length);
  }
  if (!good) return error(errc::invalid_argument, fmt::format("{} is {}, not lengths", what, shown(value)));
  return out;
}

/// The member `rows` of documents that describe many files, by name.
class rows_by_name {
 public:
  /// The rows of the file `name`; null: the document does not have it.
  const json* find(const json& members, std::string_view name) {
    const json* const rows = members.find("rows");
    if (rows == nullptr || rows->is_null()) return nullptr;
    if (rows->as_object() == nullptr) return rows;
    const auto [known, is_new] = known_.try_emplace(rows);
    if (is_new)
      for (const auto& [file, count] : *rows->as_object()) known->second.emplace(file, &count);
    const auto found = known->second.find(name);
    return found == known->second.end() || found->second->is_null() ? nullptr : found->second;
  }

 private:
  std::unordered_map<const json*, std::unordered_map<std::string_view, const json*>> known_;
};

/// \param axis  The axis along which the files are joined, as the caller counts.
result<told_shard> parse_sidecar(const std::string& key, const sidecar& from, std::int64_t axis,
                                 rows_by_name& rows_of) {
  const json& members = *from.members;
  told_shard out;
  const json* const dtype = members.find("dtype");
  const json *const offset = members.find("offset"), *const order = members.find("order");
  const std::string* const letter = order == nullptr ? nullptr : order->as_string();
  const bool ordered = order == nullptr || (letter != nullptr && (*letter == "C" || *letter == "F"));
  const bool typed = dtype != nullptr && (dtype->as_string() != nullptr || dtype->as_array() != nullptr);
  if (!typed || !ordered || (offset != nullptr && !offset->get(out.offset))) {
    return error(errc::invalid_argument,
                 fmt::format("'{}' has no valid dtype, order and offset of raw files: {}", from.key, shown(members)));
  }
  out.fortran_order = letter != nullptr && *letter == "F";
  auto descr = numpy_descr(*dtype);
  if (!descr.ok()) return std::move(descr).error().note(fmt::format("reading '{}'", from.key));
  out.dtype = std::move(*descr);
  const json* row_shape = members.find("row_shape");
  if (row_shape == nullptr) row_shape = members.find("trailing_shape");
  if (const json* const whole = members.find("shape")) {
    PENSTOCK_ASSIGN(const extents shape, lengths_of(fmt::format("shape of '{}'", from.key), *whole));
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (axis < -rank || axis >= rank) {
      return error(errc::invalid_argument, fmt::format("axis {} is out of range for '{}', which has the shape {}", axis,
                                                       key, to_string(shape)));
    }
    const auto along = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    out.rows = shape[along];
    out.row_shape.emplace();
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (d != along) out.row_shape->push_back(shape[d]);
    return out;
  }
  if (const json* const rows = rows_of.find(members, std::string_view(key).substr(key.rfind('/') + 1))) {
    std::uint64_t count = 0;
    if (!rows->get(count) || count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return error(errc::invalid_argument,
                   fmt::format("'{}' gives the number of rows of '{}' as {}", from.key, key, shown(*rows)));
    out.rows = count;
  }
  if (row_shape != nullptr && !row_shape->is_null()) {
    PENSTOCK_ASSIGN(out.row_shape, lengths_of(fmt::format("row_shape of '{}'", from.key), *row_shape, kMaxRank - 1));
  }
  return out;
}

/// The members in which all documents must agree.
std::string common_of(const told_shard& of, bool shape_is_given) {
  std::string out = fmt::format("('{}', {}, '{}'", of.dtype, of.offset, of.fortran_order ? 'F' : 'C');
  if (!shape_is_given && of.row_shape) out += fmt::format(", {}", to_string(*of.row_shape));
  return out + ")";
}

/// The facts about each file in the documents.
/// \param shape_is_given  Row shapes need not agree.
result<std::vector<told_shard>> read_sidecars(const found_shards& of, std::int64_t axis, bool shape_is_given,
                                              context& with) {
  PENSTOCK_ASSIGN(const std::vector<sidecar> sidecars, find_sidecars(of, with));
  for (std::size_t i = 0; i < sidecars.size(); ++i) {
    if (!sidecars[i].key.empty()) continue;
    return error(errc::invalid_argument,
                 fmt::format("'{0}' is raw bytes: give dtype=, or write it into '{0}.json' or '{1}' next to it",
                             of.keys[i], kCommonSidecar));
  }
  std::vector<told_shard> told;
  told.reserve(sidecars.size());
  rows_by_name rows;
  for (std::size_t i = 0; i < sidecars.size(); ++i) {
    PENSTOCK_ASSIGN(told_shard one, parse_sidecar(of.keys[i], sidecars[i], axis, rows));
    told.push_back(std::move(one));
  }
  const std::string first = common_of(told.front(), shape_is_given);
  complaints others;
  for (std::size_t i = 1; i < told.size(); ++i)
    if (const std::string its = common_of(told[i], shape_is_given); its != first)
      others.add(of.keys[i], fmt::format("{} of '{}'", its, sidecars[i].key));
  if (others.any()) {
    return others.make(errc::invalid_argument, fmt::format("do not match '{}', {}", of.keys[0], first), of.keys.size());
  }
  return told;
}

/// True for `|S0`, `<U0` and `|V0`.
bool has_no_bytes(std::string_view typestr) {
  constexpr std::string_view kSized = "SUV";
  return typestr.size() == 3 && kSized.find(typestr[1]) != std::string_view::npos && typestr[2] == '0';
}

}  // namespace

result<raw_options> describe_raw_shards(const found_shards& of, std::int64_t axis, const raw_description& given,
                                        std::shared_ptr<penstock::context> with) {
  raw_options out;
  out.dtype = given.dtype;
  out.shape = given.shape;
  out.row_shape = given.row_shape;
  out.offset = given.offset.value_or(0);
  out.fortran_order = given.fortran_order.value_or(false);
  if (out.dtype.empty()) {
    if (!with) {
      PENSTOCK_ASSIGN(with, penstock::context::make());
    }
    const bool shape_is_given = given.shape || given.row_shape;
    PENSTOCK_ASSIGN(std::vector<told_shard> told, read_sidecars(of, axis, shape_is_given, *with));
    out.dtype = told.front().dtype;
    out.offset = given.offset.value_or(told.front().offset);
    out.fortran_order = given.fortran_order.value_or(told.front().fortran_order);
    if (!shape_is_given) {
      out.row_shape = std::move(told.front().row_shape);
      if (std::any_of(told.begin(), told.end(), [](const told_shard& each) { return each.rows.has_value(); }))
        for (const told_shard& each : told) out.rows.push_back(each.rows);
    }
  }
  if (has_no_bytes(out.dtype)) {
    return error(errc::unsupported,
                 fmt::format("items of {} have 0 bytes: their number cannot be computed", out.dtype));
  }
  return out;
}

}  // namespace penstock::inline v0
