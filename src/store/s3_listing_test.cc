#include "store/s3_listing.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

std::string page_of(std::string_view inner) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
         "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
         std::string(inner) + "</ListBucketResult>";
}

TEST(S3Listing, ReturnsKeysSizesPrefixesAndTheNextPage) {
  const auto page = parse_s3_page(page_of(
      "<Name>bucket</Name><Prefix>a/</Prefix><!-- a > comment --><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>"
      "<Contents><Key>a/x&amp;y&#32;&#xE9;&lt;</Key><LastModified>2026</LastModified><ETag>&quot;1&quot;</ETag>"
      "<Size>12</Size><Owner><ID>me</ID></Owner></Contents>\n"
      "<Contents><Size>0</Size><Key>a/empty</Key></Contents>"
      "<CommonPrefixes><Prefix>a/b/</Prefix></CommonPrefixes><Marker/>"
      "<NextContinuationToken>1/go=on+</NextContinuationToken>"));
  ASSERT_TRUE(page.ok()) << page.error().to_string();
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].first, "a/x&y \xC3\xA9<");
  EXPECT_EQ(page->objects[0].second, 12u);
  EXPECT_EQ(page->objects[1].first, "a/empty");
  EXPECT_EQ(page->prefixes, std::vector<std::string>{"a/b/"});
  EXPECT_EQ(page->next, "1/go=on+");
}

TEST(S3Listing, TheLastPageHasNoToken) {
  const auto page = parse_s3_page(page_of("<IsTruncated>false</IsTruncated>"));
  ASSERT_TRUE(page.ok());
  EXPECT_TRUE(page->objects.empty() && page->next.empty());
}

TEST(S3Listing, RefusesOtherDocuments) {
  std::string deep, deep_end;
  for (int i = 0; i < 20; ++i) deep += "<a>", deep_end += "</a>";
  const std::string bad[] = {
      "",
      "text",
      "<html><body>It works!</body></html>",
      "<ListBucketResult>",
      "<ListBucketResult></Contents>",
      "<ListBucketResult",
      page_of("<IsTruncated>true</IsTruncated>"),
      page_of("<Contents><Key>a</Key></Contents>"),
      page_of("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
      page_of("<Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>"),
      page_of("<Contents><Size>1</Size></Contents>"),
      page_of("<Contents><Key>&bomb;</Key><Size>1</Size></Contents>"),
      page_of("<Contents><Key>&#0;</Key><Size>1</Size></Contents>"),
      page_of("<Contents><Key>&#xD800;</Key><Size>1</Size></Contents>"),
      page_of("<Contents><Key>a &amp b</Key><Size>1</Size></Contents>"),
      page_of("<!-- no end"),
      page_of("<>"),
      page_of(deep + deep_end),
      "<!DOCTYPE x [<!ENTITY bomb \"boom\">]>" + page_of(""),
      page_of("") + page_of(""),
  };
  for (const std::string& each : bad) {
    const auto page = parse_s3_page(each);
    ASSERT_FALSE(page.ok()) << each;
    EXPECT_EQ(page.error().code(), errc::corrupt_data) << each;
  }
}

TEST(S3Listing, FindsSingleElements) {
  EXPECT_EQ(first_element("<a><ETag>&quot;x&quot;</ETag></a>", "ETag"), "\"x\"");
  EXPECT_EQ(first_element("<a><ETag>x</a>", "ETag"), "");
  EXPECT_EQ(first_element("", "ETag"), "");
  EXPECT_EQ(xml_escaped("a<b&c>"), "a&lt;b&amp;c&gt;");
}

}  // namespace
}  // namespace penstock
