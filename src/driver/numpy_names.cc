// NumPy's names of types in documents of other programs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/dtype.h>
#include "driver/found_shards.h"

namespace penstock::inline v0 {
namespace {

struct numpy_name {
  std::string_view name, type;  ///< the type string without the byte order
};

/// Source: numpy.dtype, "Built-in scalar types" and "One-character strings", of a 64-bit machine.
constexpr numpy_name kNumpyNames[] = {
    {"?", "b1"},           {"bool", "b1"},        {"bool_", "b1"},     {"b", "i1"},         {"byte", "i1"},
    {"B", "u1"},           {"ubyte", "u1"},       {"h", "i2"},         {"short", "i2"},     {"H", "u2"},
    {"ushort", "u2"},      {"i", "i4"},           {"intc", "i4"},      {"I", "u4"},         {"uintc", "u4"},
    {"l", "i8"},           {"long", "i8"},        {"int", "i8"},       {"int_", "i8"},      {"L", "u8"},
    {"ulong", "u8"},       {"uint", "u8"},        {"q", "i8"},         {"longlong", "i8"},  {"Q", "u8"},
    {"ulonglong", "u8"},   {"p", "i8"},           {"intp", "i8"},      {"P", "u8"},         {"uintp", "u8"},
    {"e", "f2"},           {"half", "f2"},        {"f", "f4"},         {"single", "f4"},    {"d", "f8"},
    {"double", "f8"},      {"float", "f8"},       {"F", "c8"},         {"csingle", "c8"},   {"D", "c16"},
    {"cdouble", "c16"},    {"complex", "c16"},    {"int8", "i1"},      {"int16", "i2"},     {"int32", "i4"},
    {"int64", "i8"},       {"uint8", "u1"},       {"uint16", "u2"},    {"uint32", "u4"},    {"uint64", "u8"},
    {"float16", "f2"},     {"float32", "f4"},     {"float64", "f8"},   {"complex64", "c8"}, {"complex128", "c16"},
    {"datetime64", "M8"},  {"timedelta64", "m8"}, {"M", "M8"},         {"m", "m8"},         {"S", "S0"},
    {"bytes", "S0"},       {"U", "U0"},           {"str", "U0"},       {"V", "V0"},         {"void", "V0"},
    {"longdouble", "f16"}, {"g", "f16"},          {"float128", "f16"}, {"O", "O"},          {"object", "O"},
};

/// The type string, without its byte order, for a name that contains a number or a unit: `f4`, `S5`, `M8[ns]`,
/// `datetime64[ns]`. Empty: not such a name.
std::string sized_type(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kTimes = {
      {{"datetime64[", "M8["}, {"timedelta64[", "m8["}}};
  for (const auto& [text, type] : kTimes)
    if (name.starts_with(text)) return sized_type(fmt::format("{}{}", type, name.substr(text.size())));
  constexpr std::string_view kLetters = "biufcSaUVMm";
  if (name.size() < 2 || kLetters.find(name[0]) == std::string_view::npos) return {};
  std::string out(name);
  if (out[0] == 'a') out[0] = 'S';
  const auto known = dtype::from_numpy("<" + out);
  // The reader of the files refuses NumPy's wider numbers, and names them.
  const bool wide = out == "f16" || out == "f12" || out == "c32" || out == "c24";
  return known.ok() || wide ? out : std::string();
}

bool is_extension_name(std::string_view name) {  // the names of ml_dtypes
  const auto found = dtype::from_name(name);
  if (!found.ok()) return false;
  const dtype_kind kind = found->kind();
  return kind == dtype_kind::brain_float || kind == dtype_kind::small_float || name == "int2" || name == "int4" ||
         name == "uint2" || name == "uint4";
}

/// Returns `<f4` for `float32`; empty: NumPy has no such name.
std::string typestr_of(std::string_view text) {
  if (is_extension_name(text)) return std::string(text);
  constexpr bool kNativeBig = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  constexpr std::string_view kOrders = "<>=|";
  char order = '=';
  if (!text.empty() && kOrders.find(text.front()) != std::string_view::npos) {
    order = text.front();
    text.remove_prefix(1);
  }
  if (order == '=' || order == '|') order = kNativeBig ? '>' : '<';
  const auto* const named = std::find_if(std::begin(kNumpyNames), std::end(kNumpyNames),
                                         [&](const numpy_name& each) { return each.name == text; });
  std::string type = named != std::end(kNumpyNames) ? std::string(named->type) : sized_type(text);
  if (type.empty()) return {};
  const char letter = type.front();
  const bool ordered = letter != 'S' && letter != 'V' && letter != 'O' && (letter == 'U' || type.substr(1) != "1");
  return fmt::format("{}{}", ordered ? order : '|', type);
}

}  // namespace

result<std::string> numpy_descr(const json& dtype) {
  const auto refuse = [](std::string_view text) {
    return error(errc::invalid_argument, fmt::format("dtype: data type {:.200} not understood", text));
  };
  if (const json::array_t* const fields = dtype.as_array()) {
    const bool lists = std::all_of(fields->begin(), fields->end(), [](const json& each) { return each.as_array(); });
    return lists ? result<std::string>(dtype.dump()) : refuse(dtype.dump());
  }
  const std::string* const text = dtype.as_string();
  if (text == nullptr) return refuse(dtype.dump());
  if (text->find(',') == std::string::npos) {
    std::string out = typestr_of(*text);
    return out.empty() ? refuse(fmt::format("'{}'", *text)) : result<std::string>(std::move(out));
  }
  json::array_t fields;  // `i4,f8`: fields f0 and f1
  for (std::size_t begin = 0; begin <= text->size();) {
    const std::size_t end = std::min(text->find(',', begin), text->size());
    std::string one = typestr_of(std::string_view(*text).substr(begin, end - begin));
    if (one.empty()) return refuse(fmt::format("'{}'", *text));
    fields.push_back(json::array_t{json(fmt::format("f{}", fields.size())), json(std::move(one))});
    begin = end + 1;
  }
  return json(std::move(fields)).dump();
}

}  // namespace penstock::inline v0
