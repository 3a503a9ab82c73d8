#include "format/npy/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "format/npy/python_literal.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMagicBytes = 6;
/// NumPy itself aligns the items to this.
constexpr std::size_t kAlignment = 64;
/// NumPy leaves space for that many digits of the axis along which a file can grow.
constexpr std::size_t kGrowthDigits = 21;
/// NumPy has up to 64 dimensions.
constexpr std::size_t kMaxNumpyRank = 64;

unsigned byte_at(std::span<const std::byte> bytes, std::size_t i) noexcept {
  return std::to_integer<unsigned>(bytes[i]);
}

// Whether a type string, or that of a field, denotes Python objects.
bool holds_objects(const json& descr) {
  if (const std::string* text = descr.as_string()) return text->find('O') != std::string::npos;
  const json::array_t* fields = descr.as_array();
  if (fields == nullptr) return false;
  return std::any_of(fields->begin(), fields->end(), [](const json& field) {
    const json::array_t* parts = field.as_array();
    return parts != nullptr && parts->size() > 1 && holds_objects((*parts)[1]);
  });
}

// Whether a field, or one within it, has a title in addition to its name: (('title', 'name'), '<i2').
bool has_titles(const json& descr) {
  const json::array_t* fields = descr.as_array();
  if (fields == nullptr) return false;
  return std::any_of(fields->begin(), fields->end(), [](const json& field) {
    const json::array_t* parts = field.as_array();
    return parts != nullptr && parts->size() > 1 && ((*parts)[0].as_array() != nullptr || has_titles((*parts)[1]));
  });
}

result<extents> read_shape(const json& value) {
  const json::array_t* list = value.as_array();
  if (list == nullptr) return error(errc::corrupt_data, "the header's shape is not a tuple");
  if (list->size() > kMaxNumpyRank)
    return error(errc::corrupt_data, fmt::format("the header's shape has {} dimensions", list->size()));
  if (list->size() > kMaxRank)
    return error(errc::unsupported,
                 fmt::format("arrays have at most {} dimensions, the header's shape has {}", kMaxRank, list->size()));
  extents out;
  for (const json& each : *list) {
    std::uint64_t length = 0;
    if (!each.get(length)) return error(errc::corrupt_data, fmt::format("the header's shape holds {}", each.dump()));
    out.push_back(length);
  }
  return out;
}

// The text as a Python string literal.
std::string python_text(std::string_view text) {
  std::string out = "'";
  for (const char each : text) {
    if (each == '\'' || each == '\\') out += '\\';
    if (static_cast<unsigned char>(each) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(each));
    } else {
      out += each;
    }
  }
  return out + "'";
}

result<std::string> python_of(const json& from, bool is_field) {
  if (const std::string* const text = from.as_string()) return python_text(*text);
  std::uint64_t number = 0;
  if (is_field && from.get(number)) return std::to_string(number);
  const json::array_t* const list = from.as_array();
  if (list == nullptr) return error(errc::invalid_argument, fmt::format("a dtype has no {}", from.kind_name()));
  // A list of lists is a list of fields; any other list is a tuple: a field, a shape, a title and a name.
  const bool fields =
      std::all_of(list->begin(), list->end(), [](const json& each) { return each.as_array() != nullptr; }) &&
      !list->empty();
  std::string out(fields ? "[" : "(");
  for (std::size_t i = 0; i < list->size(); ++i) {
    PENSTOCK_ASSIGN(const std::string one, python_of((*list)[i], true));
    out += (i == 0 ? "" : ", ") + one;
  }
  if (!fields && list->size() == 1) out += ',';
  return out + (fields ? "]" : ")");
}

/// Text of the versions 1 and 2. Returns false, and changes nothing, if it has characters beyond Latin-1.
bool to_latin1(std::string& utf8) {
  std::string out;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto first = static_cast<unsigned char>(utf8[i]);
    if (first < 0x80) {
      out += utf8[i];
      continue;
    }
    if ((first & 0xFC) != 0xC0 || ++i == utf8.size()) return false;
    out += static_cast<char>((first & 3U) << 6 | (static_cast<unsigned char>(utf8[i]) & 0x3FU));
  }
  utf8 = std::move(out);
  return true;
}

}  // namespace

bool is_npy(std::span<const std::byte> begin) noexcept {
  return begin.size() >= kMagicBytes && std::memcmp(begin.data(), kMagic.data(), kMagicBytes) == 0;
}

result<std::uint64_t> npy_header_bytes(std::span<const std::byte> begin) {
  if (!is_npy(begin)) return error(errc::corrupt_data, "no .npy file: it does not begin with '\\x93NUMPY'");
  if (begin.size() < kMagicBytes + 4) return error(errc::corrupt_data, "the .npy file ends within its header");
  const unsigned major = byte_at(begin, 6), minor = byte_at(begin, 7);
  if (major < 1 || major > 3 || minor != 0)
    return error(errc::unsupported, fmt::format(".npy files of version {}.{} are not readable", major, minor));
  const std::size_t width = major == 1 ? 2 : 4;
  const std::size_t start = kMagicBytes + 2 + width;
  if (begin.size() < start) return error(errc::corrupt_data, "the .npy file ends within its header");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < width; ++i) length |= std::uint64_t{byte_at(begin, kMagicBytes + 2 + i)} << 8 * i;
  if (start + length > kMaxNpyHeaderBytes)
    return error(errc::unsupported, fmt::format("a .npy header of {} bytes is too long", length));
  return start + length;
}

result<npy_header> parse_npy_header(std::span<const std::byte> begin) {
  PENSTOCK_ASSIGN(const std::uint64_t size, npy_header_bytes(begin));
  if (begin.size() < size) return error(errc::corrupt_data, "the .npy file ends within its header");
  const unsigned major = byte_at(begin, 6);
  const std::size_t start = kMagicBytes + 2 + (major == 1 ? 2 : 4);
  const std::string_view text(reinterpret_cast<const char*>(begin.data()) + start,
                              static_cast<std::size_t>(size) - start);
  auto parsed = parse_python_literal(text, major < 3 ? text_encoding::latin1 : text_encoding::utf8);
  if (!parsed.ok()) return std::move(parsed).error().note("reading the .npy header");

  const json* descr = parsed->find("descr");
  const json* order = parsed->find("fortran_order");
  const json* shape = parsed->find("shape");
  if (descr == nullptr || order == nullptr || shape == nullptr || parsed->as_object()->size() != 3)
    return error(errc::corrupt_data, "the .npy header is not a dictionary of descr, fortran_order and shape");
  if (order->as_bool() == nullptr)
    return error(errc::corrupt_data, fmt::format("the header's fortran_order is {}", order->dump()));
  npy_header out;
  PENSTOCK_ASSIGN(out.shape, read_shape(*shape));
  out.order = *order->as_bool() ? storage_order::fortran : storage_order::c;
  out.descr = *descr;
  out.data_offset = size;
  if (holds_objects(out.descr))
    return error(errc::unsupported, fmt::format("pickled Python objects (dtype {}) are not readable: unpickling a file "
                                                "can run any code",
                                                out.descr.dump()));
  if (has_titles(out.descr))
    return error(errc::unsupported, fmt::format("fields with titles (dtype {}) are not readable", out.descr.dump()));
  return out;
}

result<std::string> python_descr(std::string_view descr) {
  if (!descr.starts_with('[')) return python_text(descr);
  auto parsed = json::parse(descr);
  if (!parsed.ok()) return error(errc::invalid_argument, fmt::format("'{}' is not a dtype of NumPy", descr));
  return python_of(*parsed, false);
}

std::string write_npy_header(std::string_view descr, storage_order order, const extents& shape) {
  std::string tuple;
  for (std::size_t d = 0; d < shape.size(); ++d) tuple += fmt::format("{}{}", d == 0 ? "" : ", ", shape[d]);
  if (shape.size() == 1) tuple += ',';
  std::string text = fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': ({}), }}", descr,
                                 order == storage_order::fortran ? "True" : "False", tuple);
  std::size_t spare = 0;
  if (!shape.empty())
    spare = kGrowthDigits - std::to_string(order == storage_order::fortran ? shape[shape.size() - 1] : shape[0]).size();
  const bool of_latin1 = to_latin1(text);
  const auto padded = [&](std::size_t start) {
    return ((start + text.size() + spare + 1) / kAlignment + 1) * kAlignment - start;  // adds 1 to 64
  };
  const char major = !of_latin1 ? 3 : padded(kMagicBytes + 4) > 0xFFFF ? 2 : 1;
  const std::size_t width = major == 1 ? 2 : 4;
  const std::size_t length = padded(kMagicBytes + 2 + width);
  std::string out(kMagic);
  out.push_back(major);
  out.push_back('\0');
  for (std::size_t i = 0; i < width; ++i) out.push_back(static_cast<char>(length >> 8 * i & 0xFF));
  out += text;
  out.append(length - text.size() - 1, ' ');
  out.push_back('\n');
  return out;
}

}  // namespace penstock::inline v0
