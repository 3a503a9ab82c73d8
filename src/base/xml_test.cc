#include "base/xml.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::inline v0 {
namespace {

std::string text_of(std::string_view document) {
  const auto root = parse_xml(document);
  EXPECT_TRUE(root.ok()) << document;
  return root.ok() ? root->text : "refused";
}

TEST(Xml, HasElementsAttributesAndText) {
  const auto root = parse_xml("<?xml version='1.0'?>\n<!-- c --><a x='1' y=\"2 &lt; 3\">one<b/>two<c>three</c></a>\n");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->name, "a");
  EXPECT_EQ(root->attribute("x"), "1");
  EXPECT_EQ(root->attribute("y"), "2 < 3");
  EXPECT_EQ(root->attribute("z"), "");
  EXPECT_EQ(root->text, "one");
  ASSERT_EQ(root->children.size(), 2U);
  EXPECT_EQ(root->child_text("c"), "three");
  EXPECT_EQ(root->child("d"), nullptr);
}

TEST(Xml, ReplacesReferencesAndJoinsSections) {
  EXPECT_EQ(text_of("<a>&amp;lt;&#65;&#x20ac;&quot;</a>"), "&lt;A\xe2\x82\xac\"");
  EXPECT_EQ(text_of("<a>1<!-- - -->2<![CDATA[<3>&amp;]]>4<?p x?>5</a>"), "12<3>&amp;45");
  EXPECT_EQ(text_of("<a>1\r\n2\r3</a>"), "1\n2\n3");
}

TEST(Xml, NamesHaveTheirNamespace) {
  const auto root = parse_xml("<a xmlns='u' xmlns:p='v'><p:b p:q='1' q='2'/><c xmlns=''/></a>");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->name, "{u}a");
  EXPECT_EQ(root->children[0].name, "{v}b");
  EXPECT_EQ(root->children[0].attribute("{v}q"), "1");
  EXPECT_EQ(root->children[0].attribute("q"), "2");
  EXPECT_EQ(root->children[1].name, "c");
}

TEST(Xml, RefusesDocumentsThatAreNotWellFormed) {
  for (const char* const each : {"",
                                 "text",
                                 "<a>",
                                 "<a></b>",
                                 "<a/><b/>",
                                 "<a/>x",
                                 "<a x=1/>",
                                 "<a x='1' x='2'/>",
                                 "<a x='<'/>",
                                 "<a>&b;</a>",
                                 "<a>&#0;</a>",
                                 "<a>&#xD800;</a>",
                                 "<a>\x01</a>",
                                 "<a>]]></a>",
                                 "<a><!-- -- --></a>",
                                 "<p:a/>",
                                 "<a x='1'y='2'/>",
                                 "<!DOCTYPE a><a/>",
                                 "<a><?xml version='1.0'?></a>",
                                 "<a><![CDATA[</a>",
                                 "<a",
                                 "<1/>",
                                 " <?xml version='1.0'?><a/>"}) {
    const auto root = parse_xml(each);
    ASSERT_FALSE(root.ok()) << each;
    EXPECT_EQ(root.error().code(), errc::corrupt_data) << each;
  }
}

TEST(Xml, DepthAndElementsAreBounded) {
  std::string deep, wide = "<a>";
  for (int i = 0; i < 100; ++i) deep += "<a>";
  for (int i = 0; i < (1 << 20); ++i) wide += "<b/>";
  EXPECT_FALSE(parse_xml(deep).ok());
  EXPECT_FALSE(parse_xml(wide + "</a>").ok());
}

TEST(Xml, NamespacesAreBounded) {
  std::string copied = "<a xmlns='" + std::string(1 << 20, 'u') + "'>", many = "<a";
  for (int i = 0; i < 80; ++i) copied += "<b/>";
  for (int i = 0; i < 2000; ++i) many += " xmlns:a" + std::to_string(i) + "='u'";
  EXPECT_FALSE(parse_xml(copied + "</a>").ok());
  EXPECT_FALSE(parse_xml(many + "/>").ok());
}

}  // namespace
}  // namespace penstock::inline v0
