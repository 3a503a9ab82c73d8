#include "base/xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMaxDepth = 64;
/// An element needs some hundred bytes of memory but as few as four of the document.
constexpr std::size_t kMaxElements = std::size_t{1} << 20;
/// A name of a few bytes becomes one with its namespace, and is looked up among all of these.
constexpr std::size_t kMaxNamespaceBytes = std::size_t{1} << 26;
constexpr std::size_t kMaxBindings = 1024;

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool starts_name(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
         static_cast<unsigned char>(c) >= 128;
}

bool in_name(char c) noexcept { return starts_name(c) || (c >= '0' && c <= '9') || c == '-' || c == '.'; }

void append_utf8(std::string& to, std::uint32_t code) {
  const auto tail = [&](unsigned shift) { to += static_cast<char>(0x80U | (code >> shift & 0x3fU)); };
  if (code < 0x80) {
    to += static_cast<char>(code);
  } else if (code < 0x800) {
    to += static_cast<char>(0xc0U | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    to += static_cast<char>(0xe0U | code >> 12);
    tail(6);
    tail(0);
  } else {
    to += static_cast<char>(0xf0U | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

bool is_character(std::uint32_t code) noexcept {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  return code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) && code != 0xfffe && code != 0xffff;
}

class reader {
 public:
  explicit reader(std::string_view text) noexcept : text_(text) {}

  result<xml_element> document() {
    if (text_.substr(0, 5) == "<?xml" && text_.size() > 5 && is_space(text_[5])) PENSTOCK_TRY(instruction());
    PENSTOCK_TRY(between());
    if (!(at_ < text_.size() && text_[at_] == '<')) return wrong("the document has no element");
    xml_element root;
    PENSTOCK_TRY(element(root, 0));
    PENSTOCK_TRY(between());
    if (at_ != text_.size()) return wrong("something follows the document's element");
    return root;
  }

 private:
  // A prefix and its namespace, until the element that declares it ends.
  struct binding {
    std::string prefix, uri;
  };

  error wrong(std::string_view what) const {
    return error(errc::corrupt_data, fmt::format("XML: {}, at byte {}", what, at_));
  }

  bool take(std::string_view expected) noexcept {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  bool skip_space() noexcept {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_ != begin;
  }

  result<std::string_view> name() {
    const std::size_t begin = at_;
    if (at_ == text_.size() || !starts_name(text_[at_])) return wrong("a name is missing");
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Reads up to `end`, which is skipped; characters that XML does not have are refused.
  result<std::string_view> until(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) return wrong(fmt::format("'{}' is missing", end));
    const std::string_view all = text_.substr(at_, found - at_);
    PENSTOCK_TRY(check_characters(all));
    at_ = found + end.size();
    return all;
  }

  result<> check_characters(std::string_view all) const {
    const bool valid = std::all_of(all.begin(), all.end(), [](char each) {
      const auto code = static_cast<unsigned char>(each);
      return code >= 128 || is_character(code);
    });
    if (!valid) return wrong("a control character");
    return {};
  }

  result<> instruction() {
    at_ += 2;
    PENSTOCK_TRY(name());
    PENSTOCK_TRY(until("?>"));
    return {};
  }

  result<> comment() {
    PENSTOCK_ASSIGN(const std::string_view inside, until("--"));
    (void)inside;
    if (!take(">")) return wrong("'--' within a comment");
    return {};
  }

  // White space, comments and instructions outside of the document's element.
  result<> between() {
    for (;;) {
      skip_space();
      if (take("<!--")) {
        PENSTOCK_TRY(comment());
      } else if (text_.substr(at_, 2) == "<?") {
        PENSTOCK_TRY(other_instruction());
      } else if (text_.substr(at_, 2) == "<!") {
        return wrong("document type declarations are not read");
      } else {
        return {};
      }
    }
  }

  // The declaration `<?xml` is allowed at the beginning only.
  result<> other_instruction() {
    std::string target(text_.substr(std::min(at_ + 2, text_.size()), 4));
    for (char& c : target) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (target.substr(0, 3) == "xml" && (target.size() < 4 || !in_name(target[3])))
      return wrong("a declaration that is not at the begin");
    return instruction();
  }

  result<> reference(std::string& to) {
    ++at_;
    const std::size_t end = text_.find(';', at_);
    if (end == std::string_view::npos || end - at_ > 12) return wrong("a reference without an end");
    const std::string_view named = text_.substr(at_, end - at_);
    constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
        {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}}};
    for (const auto& [entity, character] : kEntities) {
      if (named != entity) continue;
      to += character;
      at_ = end + 1;
      return {};
    }
    const bool hex = named.substr(0, 2) == "#x";
    const std::string_view digits = named.substr(std::min<std::size_t>(named.size(), hex ? 2 : 1));
    std::uint32_t code = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
    const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
    if (named.substr(0, 1) != "#" || !whole || !is_character(code)) return wrong("an unknown reference");
    append_utf8(to, code);
    at_ = end + 1;
    return {};
  }

  // Reads text up to `stop`; in attributes, white space becomes blanks.
  result<> characters(std::string& to, char stop, bool of_attribute) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != stop) {
      const char c = text_[at_];
      if (c == '&') {
        PENSTOCK_TRY(reference(to));
        continue;
      }
      if (of_attribute && c == '<') return wrong("'<' within an attribute");
      const auto code = static_cast<unsigned char>(c);
      if (code < 128 && !is_character(code)) return wrong("a control character");
      if (!of_attribute && c == '>' && at_ >= begin + 2 && text_.substr(at_ - 2, 2) == "]]")
        return wrong("']]>' within text");
      if (c == '\r') {
        if (text_.substr(at_ + 1, 1) != "\n") to += of_attribute ? ' ' : '\n';
      } else {
        to += of_attribute && is_space(c) ? ' ' : c;
      }
      ++at_;
    }
    return {};
  }

  result<> attributes(xml_element& of, std::size_t& declared) {
    for (;;) {
      const bool apart = skip_space();
      if (at_ == text_.size()) return wrong("an element without an end");
      if (text_[at_] == '>' || text_[at_] == '/') break;
      if (!apart) return wrong("a blank is missing before an attribute");
      PENSTOCK_ASSIGN(const std::string_view named, name());
      skip_space();
      if (!take("=")) return wrong("'=' is missing");
      skip_space();
      const char quote = at_ < text_.size() ? text_[at_] : '\0';
      if (quote != '"' && quote != '\'') return wrong("a quote is missing");
      ++at_;
      std::string value;
      PENSTOCK_TRY(characters(value, quote, true));
      if (at_ == text_.size()) return wrong("an attribute without an end");
      ++at_;
      if (named == "xmlns" || named.substr(0, 6) == "xmlns:") {
        if (bindings_.size() == kMaxBindings) return wrong("too many namespaces");
        bindings_.push_back({std::string(named.substr(std::min<std::size_t>(named.size(), 6))), std::move(value)});
        ++declared;
      } else {
        of.attributes.emplace_back(named, std::move(value));
      }
    }
    std::vector<std::string_view> names;
    for (auto& [named, value] : of.attributes) {
      if (named.find(':') != std::string::npos) PENSTOCK_TRY(qualify(named));
      names.push_back(named);
    }
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) != names.end()) return wrong("a duplicate attribute");
    return {};
  }

  // Expands `prefix:local` to `{uri}local`.
  result<> qualify(std::string& named) {
    const std::size_t colon = named.find(':');
    const std::string prefix = colon == std::string::npos ? std::string() : named.substr(0, colon);
    if (prefix == "xml") {
      named = "{http://www.w3.org/XML/1998/namespace}" + named.substr(colon + 1);
      return {};
    }
    const auto found =
        std::find_if(bindings_.rbegin(), bindings_.rend(), [&](const binding& each) { return each.prefix == prefix; });
    if (found == bindings_.rend()) {
      if (prefix.empty() && colon == std::string::npos) return {};
      return wrong(fmt::format("the prefix '{}' is not declared", prefix));
    }
    if (found->uri.empty()) return {};
    namespace_bytes_ += found->uri.size();
    if (namespace_bytes_ > kMaxNamespaceBytes) return wrong("names whose namespaces are too long");
    named = "{" + found->uri + "}" + (colon == std::string::npos ? named : named.substr(colon + 1));
    return {};
  }

  result<> element(xml_element& out, std::size_t depth) {
    if (depth == kMaxDepth) return wrong("elements are nested too deeply");
    if (++elements_ > kMaxElements) return wrong("too many elements");
    ++at_;
    PENSTOCK_ASSIGN(const std::string_view named, name());
    out.name = named;
    std::size_t declared = 0;
    PENSTOCK_TRY(attributes(out, declared));
    PENSTOCK_TRY(qualify(out.name));
    if (take("/")) {
      if (!take(">")) return wrong("'>' is missing");
    } else {
      ++at_;
      PENSTOCK_TRY(content(out, named, depth));
    }
    bindings_.resize(bindings_.size() - declared);
    return {};
  }

  result<> content(xml_element& out, std::string_view named, std::size_t depth) {
    std::string after;  // text after a child belongs to no element
    for (;;) {
      std::string& text = out.children.empty() ? out.text : after;
      after.clear();
      PENSTOCK_TRY(characters(text, '<', false));
      if (at_ == text_.size()) return wrong("an element without an end");
      if (take("</")) {
        PENSTOCK_ASSIGN(const std::string_view closed, name());
        if (closed != named) return wrong("the end of another element");
        skip_space();
        if (!take(">")) return wrong("'>' is missing");
        return {};
      }
      if (take("<!--")) {
        PENSTOCK_TRY(comment());
      } else if (take("<![CDATA[")) {
        PENSTOCK_ASSIGN(const std::string_view inside, until("]]>"));
        append_lines(text, inside);
      } else if (text_.substr(at_, 2) == "<?") {
        PENSTOCK_TRY(other_instruction());
      } else {
        out.children.emplace_back();
        PENSTOCK_TRY(element(out.children.back(), depth + 1));
      }
    }
  }

  static void append_lines(std::string& to, std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\r') to += text[i];
      if (text[i] == '\r' && text.substr(i + 1, 1) != "\n") to += '\n';
    }
  }

  std::string_view text_;
  std::size_t at_ = 0, elements_ = 0, namespace_bytes_ = 0;
  std::vector<binding> bindings_;
};

}  // namespace

std::string_view xml_element::attribute(std::string_view of) const noexcept {
  for (const auto& [named, value] : attributes) {
    if (named == of) return value;
  }
  return {};
}

const xml_element* xml_element::child(std::string_view of) const noexcept {
  const auto found =
      std::find_if(children.begin(), children.end(), [&](const xml_element& each) { return each.name == of; });
  return found == children.end() ? nullptr : &*found;
}

std::string_view xml_element::child_text(std::string_view of) const noexcept {
  const xml_element* const found = child(of);
  return found == nullptr ? std::string_view() : found->text;
}

result<xml_element> parse_xml(std::string_view document) { return reader(document).document(); }

}  // namespace penstock::inline v0
