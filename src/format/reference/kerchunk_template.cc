#include "format/reference/kerchunk_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace penstock::inline v0 {
namespace {

constexpr std::uint64_t kMaxGenerated = 100'000;
constexpr std::size_t kMaxExpression = 1'000;
constexpr std::uint64_t kMaxText = 1 << 16;
constexpr std::uint64_t kMaxCharacters = 1 << 25;
constexpr std::uint64_t kMaxCharactersEach = 1 << 8;
constexpr int kMaxDepth = 8;
constexpr int kMaxParentheses = 64;
constexpr std::size_t kMaxCached = 10'000;
constexpr std::size_t kMaxCachedBytes = 1 << 12;  // characters of a text that is looked up again
constexpr std::uint64_t kExpressionCost = 4;      // characters of an expression that cost as much as one of a text
constexpr std::size_t kShownCharacters = 80;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool starts_name(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Rounded down; b is not 0, and not -1 if a is the least number.
std::int64_t floored_quotient(std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
std::int64_t floored_remainder(std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace

std::string template_text(const template_value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return fmt::format("{}", std::get<std::int64_t>(value));
}

/// Parses and evaluates one expression, by recursive descent.
class kerchunk_expander::expression {
 public:
  expression(kerchunk_expander& in, std::string_view text, const template_names& names, int depth)
      : in_(in), text_(text), names_(names), depth_(depth) {}

  result<template_value> value() {
    PENSTOCK_ASSIGN(template_value out, sum(0));
    if (!rest().empty()) return unknown();
    return out;
  }

 private:
  error unknown() const { return wrong("names, whole numbers, + - * // % and calls of templates are known"); }
  error wrong(std::string_view what) const {
    return {errc::unsupported, fmt::format("the template '{{{{{}}}}}': {}", text_.substr(0, kShownCharacters), what)};
  }
  std::string_view rest() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return text_.substr(at_);
  }
  bool take(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  result<template_value> sum(int parentheses) {
    PENSTOCK_ASSIGN(template_value left, product(parentheses));
    while (true) {
      const char op = take("+") ? '+' : take("-") ? '-' : '\0';
      if (op == '\0') return left;
      PENSTOCK_ASSIGN(const template_value right, product(parentheses));
      PENSTOCK_ASSIGN(left, combined(left, op, right));
    }
  }

  result<template_value> product(int parentheses) {
    PENSTOCK_ASSIGN(template_value left, atom(parentheses));
    while (true) {
      const char op = rest().starts_with("**") ? '\0' : take("//") ? '/' : take("*") ? '*' : take("%") ? '%' : '\0';
      if (op == '\0') return left;
      PENSTOCK_ASSIGN(const template_value right, atom(parentheses));
      PENSTOCK_ASSIGN(left, combined(left, op, right));
    }
  }

  result<template_value> combined(const template_value& left, char op, const template_value& right) const {
    const auto* const a = std::get_if<std::int64_t>(&left);
    const auto* const b = std::get_if<std::int64_t>(&right);
    if (a == nullptr || b == nullptr) return unknown();
    if ((op == '/' || op == '%') && *b == 0) return wrong("division by zero");
    std::int64_t out = 0;
    bool overflows = false;
    switch (op) {
      case '+':
        overflows = __builtin_add_overflow(*a, *b, &out);
        break;
      case '-':
        overflows = __builtin_sub_overflow(*a, *b, &out);
        break;
      case '*':
        overflows = __builtin_mul_overflow(*a, *b, &out);
        break;
      case '/':
        overflows = *b == -1 && __builtin_sub_overflow(std::int64_t{0}, *a, &out);
        if (*b != -1) out = floored_quotient(*a, *b);
        break;
      default:
        out = *b == -1 ? 0 : floored_remainder(*a, *b);
    }
    if (overflows) return wrong("a number of more than 64 bits");
    return template_value(out);
  }

  result<template_value> atom(int parentheses) {
    const std::string_view here = rest();
    if (here.empty()) return unknown();
    if (here.front() == '(') {
      if (parentheses == kMaxParentheses) return wrong("too many nested parentheses");
      ++at_;
      PENSTOCK_ASSIGN(template_value out, sum(parentheses + 1));
      if (!take(")")) return unknown();
      return out;
    }
    if (is_digit(here.front())) return number(here);
    if (here.front() == '\'' || here.front() == '"') return quoted(here);
    if (starts_name(here.front())) return named(parentheses);
    return unknown();
  }

  result<template_value> number(std::string_view here) {
    std::int64_t out = 0;
    std::size_t size = 0;
    for (; size < here.size() && is_digit(here[size]); ++size) {
      const bool overflows =
          __builtin_mul_overflow(out, std::int64_t{10}, &out) || __builtin_add_overflow(out, here[size] - '0', &out);
      if (overflows) return wrong("a number of more than 64 bits");
    }
    if (size < here.size() && starts_name(here[size])) return unknown();
    at_ += size;
    return template_value(out);
  }

  result<template_value> quoted(std::string_view here) {
    const std::size_t end = here.find(here.front(), 1);
    const std::string_view inner = here.substr(1, end == std::string_view::npos ? end : end - 1);
    if (end == std::string_view::npos || inner.find('\\') != std::string_view::npos) return unknown();
    at_ += end + 1;
    return template_value(std::string(inner));
  }

  std::string name() {
    const std::string_view here = rest();
    std::size_t size = 0;
    while (size < here.size() && (is_digit(here[size]) || starts_name(here[size]))) ++size;
    at_ += size;
    return std::string(here.substr(0, size));
  }

  result<template_value> named(int parentheses) {
    const std::string called = name();
    const auto found = in_.templates_.find(called);
    if (take("(")) {
      if (found == in_.templates_.end()) return unknown();
      PENSTOCK_ASSIGN(template_names given, arguments(parentheses));
      PENSTOCK_ASSIGN(std::string out, in_.fill(found->second, given, depth_ + 1));
      return template_value(std::move(out));
    }
    const auto last =
        std::find_if(names_.rbegin(), names_.rend(), [&](const auto& each) { return each.first == called; });
    if (last != names_.rend()) return last->second;
    if (found == in_.templates_.end()) {
      return error(errc::corrupt_data, fmt::format("references use a template '{}' that they do not define",
                                                   called.substr(0, kShownCharacters)));
    }
    PENSTOCK_ASSIGN(std::string out, in_.fill(found->second, names_, depth_ + 1));
    return template_value(std::move(out));
  }

  // After "(": keyword arguments, which hide names from outside.
  result<template_names> arguments(int parentheses) {
    if (parentheses == kMaxParentheses) return wrong("too many nested parentheses");
    template_names out = names_;
    while (!take(")")) {
      if (rest().empty() || !starts_name(rest().front())) return unknown();
      std::string key = name();
      if (!take("=")) return unknown();
      PENSTOCK_ASSIGN(template_value value, sum(parentheses + 1));
      out.emplace_back(std::move(key), std::move(value));
      if (!take(",") && !rest().starts_with(")")) return unknown();
    }
    return out;
  }

  kerchunk_expander& in_;
  std::string_view text_;
  const template_names& names_;
  int depth_;
  std::size_t at_ = 0;
};

kerchunk_expander::kerchunk_expander(templates known, std::uint64_t references)
    : templates_(std::move(known)),
      characters_left_(kMaxCharacters + kMaxCharactersEach * references),
      keys_left_(kMaxGenerated + references) {}

result<> kerchunk_expander::generate(std::uint64_t count) {
  if (count > keys_left_) {
    return error(errc::unsupported,
                 fmt::format("references that generate {} keys are more than this release reads ({}): write them out, "
                             "or save them as Parquet",
                             count, kMaxGenerated));
  }
  keys_left_ -= count;
  return {};
}

result<> kerchunk_expander::spend(std::uint64_t characters, std::string_view text) {
  if (characters > characters_left_) {
    return error(errc::unsupported, fmt::format("templates of references expand to more than this release reads: '{}'",
                                                text.substr(0, kShownCharacters)));
  }
  characters_left_ -= characters;
  return {};
}

result<std::string> kerchunk_expander::text(std::string_view text, const template_names& names, bool is_data) {
  if (text.find("{{") == std::string_view::npos) return std::string(text);
  const bool cached = names.empty() && text.size() <= kMaxCachedBytes;
  if (cached) {
    const auto found = known_.find(std::string(text));
    if (found != known_.end()) return found->second;
  }
  most_ = is_data ? std::max<std::uint64_t>(kMaxText, 2 * text.size()) : kMaxText;
  PENSTOCK_ASSIGN(std::string out, fill(text, names, 0));
  if (cached && known_.size() < kMaxCached) known_.emplace(text, out);
  return out;
}

result<std::string> kerchunk_expander::fill(std::string_view text, const template_names& names, int depth) {
  if (depth > kMaxDepth) return error(errc::corrupt_data, "templates of references name one another in circles");
  std::string out;
  const auto append = [&](std::string_view piece) -> result<> {
    PENSTOCK_TRY(spend(piece.size() + 1, text));
    out.append(piece);
    if (out.size() <= most_) return {};
    return error(errc::unsupported, fmt::format("templates of references expand to more than {} characters: '{}'",
                                                most_, text.substr(0, kShownCharacters)));
  };
  std::size_t at = 0, parts = 0;
  while (true) {
    const std::size_t begin = text.find("{{", at);
    const std::size_t end = begin == std::string_view::npos ? begin : text.find("}}", begin + 2);
    if (end == std::string_view::npos) break;
    if (++parts > kMaxExpression) {
      return error(errc::unsupported,
                   fmt::format("a text of references has too many templates: '{}'", text.substr(0, kShownCharacters)));
    }
    PENSTOCK_TRY(append(text.substr(at, begin - at)));
    const std::string_view inner = trimmed(text.substr(begin + 2, end - begin - 2));
    if (inner.size() > kMaxExpression) {
      return error(errc::unsupported, fmt::format("the template '{{{{{}}}}}' is not readable: it has {} characters",
                                                  inner.substr(0, kShownCharacters), inner.size()));
    }
    PENSTOCK_TRY(spend(inner.size() / kExpressionCost, text));
    PENSTOCK_ASSIGN(const template_value value, expression(*this, inner, names, depth).value());
    PENSTOCK_TRY(append(template_text(value)));
    at = end + 2;
  }
  PENSTOCK_TRY(append(text.substr(at)));
  return out;
}

}  // namespace penstock::inline v0
