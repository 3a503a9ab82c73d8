#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/result.h>

namespace penstock::inline v0 {

/// An element of an XML document.
struct xml_element {
  std::string name;  ///< `{uri}local` if it belongs to a namespace
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  ///< the text before the first child, with references replaced
  std::vector<xml_element> children;

  /// The value of an attribute; empty if it does not exist.
  std::string_view attribute(std::string_view of) const noexcept;
  /// The first child with that name, or null.
  const xml_element* child(std::string_view of) const noexcept;
  /// The text of the first child with that name; empty if it does not exist.
  std::string_view child_text(std::string_view of) const noexcept;
};

/// Parses one document that is well-formed by XML 1.0 and has no document type declaration.
///
/// References to characters and the five entities that XML predefines are replaced, line ends are `\n`. Bytes above
/// 0x7f are accepted unchanged: the caller checks that text is UTF-8.
///
/// \error corrupt_data  The document is not well-formed; the message has the reason and the byte. Also if elements are
///                      nested deeper than 64 levels, for more than 2^20 elements or 1024 namespaces, for names with
///                      more than 64 MiB of namespaces, and for declarations of document types (which can define
///                      entities that grow without bound).
/// Source: Extensible Markup Language (XML) 1.0, fifth edition; Namespaces in XML 1.0.
result<xml_element> parse_xml(std::string_view document);

}  // namespace penstock::inline v0
