#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include <penstock/variable.h>
#include "base/counted.h"
#include "base/printable.h"
#include "interrupt.h"
#include "progress.h"
#include "run.h"
#include "slabs.h"
#include "values.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

constexpr std::uint64_t kComparedBytes = std::uint64_t{32} << 20;
constexpr int kMostLevels = 64;
constexpr int kTrouble = kUsage;  // as of diff(1): 2 if the comparison could not be made

struct diff_arguments {
  std::string a, b;
  double rtol = 0, atol = 0;
  std::size_t most = 100;
  unsigned threads = 0;
  bool only_values = false;
};

bool is_integer(const json& value) {
  std::int64_t number = 0;
  std::uint64_t large = 0;
  return value.get(number) || value.get(large) || value.as_long_integer() != nullptr;
}

bool same(const json& a, const json& b) {
  if (a.as_object() != nullptr && b.as_object() != nullptr) {
    const auto& members = *a.as_object();
    return members.size() == b.as_object()->size() &&
           std::all_of(members.begin(), members.end(), [&](const auto& each) {
             const json* other = b.find(each.first);
             return other != nullptr && same(each.second, *other);
           });
  }
  if (a.as_array() != nullptr && b.as_array() != nullptr) {
    const auto &left = *a.as_array(), &right = *b.as_array();
    return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin(), same);
  }
  double left = 0, right = 0;
  if (is_integer(a) && is_integer(b)) return a == b;  // doubles would round them
  if (a.is_number() && b.is_number() && a.get(left) && b.get(right))
    return left == right || (std::isnan(left) && std::isnan(right));
  return a == b;
}

/// JSON that is no longer than a line.
std::string short_text(const json& value) {
  std::string text = value.dump();
  return text.size() > 60 ? fmt::format("{}...", first_characters(text, 57)) : text;
}

double half_to_double(const std::byte* item) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, item, sizeof bits);
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double value = exponent == 0      ? std::ldexp(fraction, -24)
                 : exponent == 0x1f ? (fraction == 0 ? INFINITY : NAN)
                                    : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

/// x87's 80 bits in 16 bytes, of which the others have no meaning.
long double extended_of(const std::byte* item) {
  long double value = 0;
  std::memcpy(&value, item, std::min<std::size_t>(sizeof value, 10));
  return value;
}

/// A floating number of that many bits as a double.
double floating_of(bool brain, std::uint32_t bits, const std::byte* item) {
  if (brain) {
    std::uint16_t high = 0;
    std::memcpy(&high, item, sizeof high);
    return std::bit_cast<float>(static_cast<std::uint32_t>(high) << 16);
  }
  if (bits == 16) return half_to_double(item);
  if (bits == 32) {
    float value = 0;
    std::memcpy(&value, item, sizeof value);
    return value;
  }
  double value = 0;
  std::memcpy(&value, item, sizeof value);
  return value;
}

/// Compares elements of one type.
class item_comparer {
 public:
  item_comparer(const dtype& type, const diff_arguments& given) : type_(type), rtol_(given.rtol), atol_(given.atol) {
    for (const dtype_field& each : type_.fields()) fields_.emplace_back(each.type, given);
  }

  /// Whether equal bytes mean equal elements: not for text, whose bytes are stored elsewhere.
  bool by_bytes() const { return !type_.variable_length(); }

  bool equal(const std::byte* a, const std::byte* b) {
    const std::uint32_t bytes = type_.item_bytes();
    switch (type_.kind()) {
      case dtype_kind::variable_utf8:
      case dtype_kind::variable_bytes:
      case dtype_kind::variable_list: {
        variable_item left, right;
        std::memcpy(&left, a, sizeof left);
        std::memcpy(&right, b, sizeof right);
        return left.text() == right.text();
      }
      case dtype_kind::floating:
      case dtype_kind::brain_float:
        return close(number(a), number(b));
      case dtype_kind::extended_float:
        return close(extended_of(a), extended_of(b));
      case dtype_kind::complex: {
        const std::uint32_t half = type_.bits() / 2;
        const bool brain = type_.format() == float_format::bfloat16;
        // Halves of 8 bits and less are compared as bytes, as `small_float` is.
        if (!brain && type_.format() != float_format::ieee) return std::memcmp(a, b, bytes) == 0;
        const auto part = [&](const std::byte* at) { return floating_of(brain, half, at); };
        const bool real = close(part(a), part(b));
        return close(part(a + bytes / 2), part(b + bytes / 2)) && real;
      }
      case dtype_kind::signed_integer:
      case dtype_kind::unsigned_integer:
        if (std::memcmp(a, b, bytes) == 0) return true;
        return close(number(a), number(b)) && (rtol_ > 0 || atol_ > 0);
      case dtype_kind::structured:
        return std::memcmp(a, b, bytes) == 0 || fields_equal(a, b);
      default:
        return std::memcmp(a, b, bytes) == 0;
    }
  }
  /// The largest difference between two numbers, of all that were compared one by one.
  double largest() const { return largest_; }

 private:
  /// Without the bytes between fields, and those of long doubles that have no meaning.
  bool fields_equal(const std::byte* a, const std::byte* b) {
    bool same = true;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const dtype_field& field = type_.fields()[i];
      item_comparer& compare = fields_[i];
      const std::uint64_t one = std::max<std::uint64_t>(field.type.item_bytes(), 1), end = field.offset + field.bytes();
      for (std::uint64_t at = field.offset; at < end; at += one) same = compare.equal(a + at, b + at) && same;
      largest_ = std::max(largest_, compare.largest_);
    }
    return same;
  }
  double number(const std::byte* item) const {
    if (type_.kind() == dtype_kind::floating || type_.kind() == dtype_kind::brain_float)
      return floating_of(type_.kind() == dtype_kind::brain_float, type_.bits(), item);
    const std::uint32_t bytes = type_.item_bytes();
    std::uint64_t bits = 0;
    std::memcpy(&bits, item, std::min<std::uint32_t>(bytes, 8));  // little-endian: the low bytes come first
    if constexpr (std::endian::native == std::endian::big) bits >>= 64 - 8 * std::min<std::uint32_t>(bytes, 8);
    if (type_.kind() == dtype_kind::unsigned_integer) return static_cast<double>(bits);
    const unsigned shift = 64 - 8 * std::min<std::uint32_t>(bytes, 8);
    return static_cast<double>(static_cast<std::int64_t>(bits << shift) >> shift);
  }
  template <class T>
  bool close(T a, T b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return true;
    const T apart = std::abs(a - b);
    if (std::isfinite(apart))
      largest_ = std::max(largest_, static_cast<double>(std::min<T>(apart, std::numeric_limits<double>::max())));
    return std::isfinite(apart) && apart <= atol_ + rtol_ * std::abs(b);
  }

  dtype type_;
  std::vector<item_comparer> fields_;  // of structures
  double rtol_, atol_, largest_ = 0;
};

/// Compares two nodes and all below them, and collects the differences in both forms.
class comparison {
 public:
  explicit comparison(const diff_arguments& given) : given_(given) {}

  /// \error A read that failed: differences are findings, not errors.
  result<> visit(const opened& a, const opened& b, const std::string& path, int depth = 0) {
    const auto* const left = std::get_if<array>(&a);
    const auto* const right = std::get_if<array>(&b);
    if ((left == nullptr) != (right == nullptr)) {
      differs(path, "kind",
              fmt::format("{} and {}", left != nullptr ? "an array" : "a group",
                          right != nullptr ? "an array" : "a group"));
      return {};
    }
    if (left != nullptr) return visit_arrays(*left, *right, path);
    return visit_groups(*std::get<std::shared_ptr<const opened_group>>(a),
                        *std::get<std::shared_ptr<const opened_group>>(b), path, depth);
  }

  bool equal() const { return count_ == 0; }
  std::uint64_t arrays() const { return arrays_; }
  std::string text() const {
    std::string out = text_;
    if (count_ > given_.most) out += fmt::format("... and {} more\n", count_ - given_.most);
    return out;
  }
  json document() {
    return json::object_t{{"a", given_.a},
                          {"b", given_.b},
                          {"equal", equal()},
                          {"arrays", arrays_},
                          {"differences", std::move(documents_)}};
  }

 private:
  void differs(const std::string& path, const char* what, const std::string& how, json::object_t more = {}) {
    if (count_++ >= given_.most) return;
    const std::string shown = path.empty() ? "/" : printable(path);
    text_ += fmt::format("{}: {}: {}\n", shown, painted(color::red, what), printable(how));
    json::object_t document{{"path", path}, {"what", what}, {"text", how}};
    for (auto& each : more) document.push_back(std::move(each));
    documents_.emplace_back(std::move(document));
  }

  void compare_attributes(const std::string& a, const std::string& b, const std::string& path) {
    if (given_.only_values) return;
    const json left = parsed(a), right = parsed(b);
    if (left.as_object() == nullptr || right.as_object() == nullptr) return;
    for (const auto& [name, value] : *left.as_object()) {
      const json* other = right.find(name);
      if (other == nullptr) {
        differs(path, "attribute", fmt::format("'{}' is only in {}", name, given_.a));
      } else if (!same(value, *other)) {
        differs(path, "attribute", fmt::format("'{}' is {} and {}", name, short_text(value), short_text(*other)));
      }
    }
    for (const auto& [name, value] : *right.as_object())
      if (left.find(name) == nullptr) differs(path, "attribute", fmt::format("'{}' is only in {}", name, given_.b));
  }

  result<> visit_groups(const opened_group& a, const opened_group& b, const std::string& path, int depth) {
    if (const std::string identity = a.identity(); !identity.empty() && !visited_.insert(identity).second) return {};
    compare_attributes(a.attributes_json(), b.attributes_json(), path);
    PENSTOCK_ASSIGN(const std::vector<std::string> left, a.keys());
    PENSTOCK_ASSIGN(const std::vector<std::string> right, b.keys());
    const std::set<std::string> others(right.begin(), right.end());
    for (const std::string& name : left) {
      const std::string below = path.empty() ? name : path + "/" + name;
      if (!others.contains(name)) {
        differs(below, "member", fmt::format("only in {}", given_.a));
        continue;
      }
      PENSTOCK_ASSIGN(const opened one, a.open(name));
      PENSTOCK_ASSIGN(const opened other, b.open(name));
      if (depth < kMostLevels) PENSTOCK_TRY(visit(one, other, below, depth + 1));
    }
    const std::set<std::string> known(left.begin(), left.end());
    for (const std::string& name : right)
      if (!known.contains(name))
        differs(path.empty() ? name : path + "/" + name, "member", fmt::format("only in {}", given_.b));
    return {};
  }

  result<> visit_arrays(const array& a, const array& b, const std::string& path) {
    ++arrays_;
    if (a.shape() != b.shape()) {
      differs(path, "shape", fmt::format("{} and {}", to_string(a.shape()), to_string(b.shape())));
      return {};
    }
    if (a.type() != b.type() && !are_texts(a.type(), b.type())) {
      differs(path, "dtype", fmt::format("{} and {}", type_text(a.type()), type_text(b.type())));
      return {};
    }
    if (!given_.only_values && names_of(a) != names_of(b))
      differs(path, "dimensions",
              fmt::format("({}) and ({})", fmt::join(names_of(a), ", "), fmt::join(names_of(b), ", ")));
    compare_attributes(a.attributes_json(), b.attributes_json(), path);
    return compare_values(a, b, path);
  }

  // Text of HDF5 whose character set is ASCII is bytes, and copies of it to Zarr are text.
  static bool are_texts(const dtype& a, const dtype& b) {
    const auto is_text = [](const dtype& type) {
      return type.kind() == dtype_kind::variable_utf8 || type.kind() == dtype_kind::variable_bytes;
    };
    return is_text(a) && is_text(b);
  }

  // Bytes that are compared with text are shown as text.
  static const dtype& shown_as(const dtype& type, const dtype& other) {
    return other.kind() == dtype_kind::variable_utf8 && are_texts(type, other) ? other : type;
  }

  // Empty if no dimension has a name: metadata may have such a list or none.
  static std::vector<std::string> names_of(const array& a) {
    std::vector<std::string> out;
    bool any = false;
    for (const auto& name : a.dimension_names()) {
      out.push_back(name.value_or("-"));
      any = any || name.has_value();
    }
    return any ? out : std::vector<std::string>();
  }

  result<> compare_values(const array& a, const array& b, const std::string& path) {
    if (a.type().kind() == dtype_kind::object)
      return error(errc::unsupported, fmt::format("cannot compare elements of {}", a.type().name()))
          .note(fmt::format("array '{}'", a.uri()));
    PENSTOCK_ASSIGN(const resolved_basic all, resolve(basic_selection{}, a.shape()));
    PENSTOCK_ASSIGN(const std::uint64_t total, element_count(a.shape()));
    extents chunks = a.chunks();
    for (std::size_t d = 0; d < chunks.size(); ++d) chunks[d] = std::max(chunks[d], b.chunks()[d]);
    const std::uint32_t item = a.type().item_bytes();
    item_comparer compare(a.type(), given_);
    std::uint64_t differing = 0, done = 0;
    extents first;
    std::string first_text;
    progress_line line(path.empty() ? "comparing" : "comparing " + path);
    const stoppable reading;
    std::vector<std::byte> left, right;
    slab_cutter slabs(all, chunks, item, kComparedBytes);
    while (const std::optional<slab> piece = slabs.next()) {
      PENSTOCK_ASSIGN(const std::uint64_t elements, element_count(piece->shape));
      left.resize(elements * item);
      right.resize(elements * item);
      read_options options;
      options.threads = given_.threads;
      options.progress = [&](const read_progress&) { return line.update({done * item, total * item}); };
      options.arena = std::make_shared<item_arena>();
      PENSTOCK_TRY(a.read(piece->which, tensor_view::contiguous(left.data(), a.type(), piece->shape), options));
      PENSTOCK_TRY(b.read(piece->which, tensor_view::contiguous(right.data(), b.type(), piece->shape), options));
      if (caught_signal() != 0) return error(errc::cancelled, "interrupted");
      done += elements;
      if (compare.by_bytes() && std::memcmp(left.data(), right.data(), left.size()) == 0) continue;
      for (std::uint64_t i = 0; i < elements; ++i) {
        if (compare.equal(&left[i * item], &right[i * item])) continue;
        if (differing++ != 0) continue;
        first = place_of(*piece, i);
        first_text = fmt::format("{} and {}", item_text(shown_as(a.type(), b.type()), &left[i * item]),
                                 item_text(shown_as(b.type(), a.type()), &right[i * item]));
      }
    }
    if (differing == 0) return {};
    std::string how = fmt::format("{} of {} {}, first at {}: {}", differing, counted(total, "element"),
                                  differing == 1 ? "differs" : "differ", to_string(first), first_text);
    if (compare.largest() > 0) how += fmt::format("; the largest difference is {:.6g}", compare.largest());
    json::array_t at;
    for (const std::uint64_t each : first) at.emplace_back(each);
    differs(
        path, "values", how,
        {{"position", std::move(at)}, {"differing", differing}, {"elements", total}, {"largest", compare.largest()}});
    return {};
  }

  static extents place_of(const slab& piece, std::uint64_t element) {
    extents out(piece.shape.size());
    for (std::size_t d = piece.shape.size(); d-- != 0;) {
      const auto start = static_cast<std::uint64_t>(*std::get<slice>(piece.which.items[d]).start);
      out[d] = start + element % piece.shape[d];
      element /= piece.shape[d];
    }
    return out;
  }

  const diff_arguments& given_;
  std::uint64_t count_ = 0, arrays_ = 0;
  std::string text_;
  json::array_t documents_;
  std::set<std::string> visited_;  // groups of the first node, by identity
};

int diff(const session& speak, const diff_arguments& given) {
  const auto fail = [&](const error& failure) {
    const int status = speak.fail(failure);
    return status == kFailed ? kTrouble : status;
  };
  const auto a = open_node(speak, given.a, given.threads);
  if (!a.ok()) return fail(a.error());
  const auto b = open_node(speak, given.b, given.threads);
  if (!b.ok()) return fail(b.error());
  comparison found(given);
  if (auto done = found.visit(*a, *b, ""); !done.ok()) return fail(done.error());
  const bool equal = found.equal();
  const int status = speak.as_json ? speak.print_document(found.document()) : speak.print(found.text());
  if (status == kFailed) return kTrouble;
  return status == kOk && !equal ? kFailed : status;
}

}  // namespace

void add_diff(command_line& line) {
  auto given = std::make_shared<diff_arguments>();
  command verb = line.add("diff", "Compare two arrays, or two groups with all of their members");
  verb.required("A", given->a, "A path or a URI, of any format");
  verb.required("B", given->b, "Another one");
  verb.option("--rtol", given->rtol, "Relative tolerance: the allowed difference as a fraction of B's number");
  verb.option("--atol", given->atol, "Absolute tolerance: the allowed difference");
  verb.flag("--values", given->only_values, "Compare shapes, types and values; not attributes and dimension names");
  verb.option("--max-differences", given->most, "List at most that many differences");
  verb.threads(given->threads, "Threads for decoding; default: one for each core");
  verb.json("Print one JSON document");
  verb.footer(
      "Compares members, shapes, types, dimension names, attributes and values. Chunks, codecs and formats may "
      "differ.\n"
      "NaN equals NaN. Exit status: 0 equal, 1 different, 2 not compared, as for diff(1).\n\n"
      "Examples:\n  penstock diff data.zarr copy.zarr\n  penstock diff model.nc model.zarr --values --rtol 1e-6");
  verb.runs([given](const session& speak) { return diff(speak, *given); });
}

}  // namespace penstock::inline v0::cli
