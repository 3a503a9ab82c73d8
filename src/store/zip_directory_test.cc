// Archives of other programs, and malformed archives.

#include "store/zip_directory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "store/store_fixture.h"
#include "store/zip_records.h"
#include "store/zip_store.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

const fs::path kArchives = fs::path(PENSTOCK_SOURCE_DIR) / "tests/data/zip";

bytes contents_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return to_bytes(std::string(std::istreambuf_iterator<char>(in), {}));
}

result<zip_directory> parse(const bytes& file) {
  const zip_reader reader = [&](std::uint64_t offset, std::span<std::byte> room) -> result<> {
    if (offset > file.size() || room.size() > file.size() - offset) return error(errc::io_error, "past the end");
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), room.size(), room.begin());
    return {};
  };
  PENSTOCK_ASSIGN(const zip_end end, find_zip_end(reader, file.size()));
  bytes directory(end.directory_bytes);
  PENSTOCK_TRY(reader(end.directory_offset, directory));
  return parse_zip_directory(directory, end);
}

std::string complaint(const bytes& file) {
  const auto parsed = parse(file);
  return parsed.ok() ? "none" : parsed.error().to_string();
}

zip_entry entry_at(std::uint64_t offset, std::uint64_t size) {
  zip_entry out;
  out.header_offset = offset;
  out.encoded_bytes = out.decoded_bytes = size;
  return out;
}

// An archive of `data` arbitrary bytes and a directory with any content.
bytes archive_of(const std::vector<std::pair<std::string, zip_entry>>& entries, std::size_t data = 1000) {
  zip_directory directory;
  for (const auto& [name, entry] : entries) directory.entries.emplace(name, entry);
  bytes out(data);
  const auto end = make_zip_directory(directory, data, "");
  out.insert(out.end(), end.begin(), end.end());
  return out;
}

void put_number(bytes& to, std::size_t at, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) to[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (8 * i));
}

TEST(ZipDirectory, ReadsTheArchivesOfOtherPrograms) {
  const std::map<std::string, std::map<std::string, std::string>> wanted = {
      {"yauzl/success/cygwin-info-zip", {{"a.txt", "asdf\n"}, {"b.txt", "bsdf\n"}}},
      {"yauzl/success/linux-info-zip", {{"a.txt", "asdf\n"}, {"b.txt", "bsdf\n"}}},
      {"yauzl/success/windows-7-zip", {{"a.txt", "asdf\n"}, {"b.txt", "bsdf\n"}}},
      {"yauzl/success/windows-compressed-folder", {{"a.txt", "asdf\n"}, {"b.txt", "bsdf\n"}}},
      {"yauzl/success/sloppy-filenames", {{"a\\txt", "asdf\n"}, {"b.txt", "bsdf\n"}}},
      {"yauzl/success/zip64", {{"test1.txt", "foo"}, {"test2.txt", "bar"}}},
      {"yauzl/success/unix-epoch", {{"unix-epoch.txt", ""}}},
      {"yauzl/success/directories", {{"a/a.txt", ""}}},
      {"yauzl/success/empty", {}},
      {"yauzl/success/unicode-path-extra-field", {{"七个房间.txt", ""}}},
      {"yauzl/success/unicode",
       {{"Turmion Kätilöt/Hoitovirhe/Rautaketju.mp3", ""},
        {"Turmion Kätilöt/Pirun nyrkki/Mistä veri pakenee.mp3", ""}}},
      {"tensorstore/zip64_one_empty_file", {{"-", "a\n"}}},
      {"tensorstore/data_descriptor_store_compression", {{"test_file", "hello_world"}}},
      {"tensorstore/infozip_unicode_path", {{"utf8_name.txt", "Hello Unicode!"}}},
      {"tensorstore/zip_test2", {{"test", "test\n"}, {"testdir/test2", "test\n"}}},
      {"tensorstore/zip_bzip2",
       {{"abac-repeat.txt", "aaaaaaaaaaaaaa\nbbbbbbbbbbbbbb\naaaaaaaaaaaaaa\ncccccccccccccc\n"}}},
      {"tensorstore/zip_zstd",
       {{"abac-repeat.txt", "aaaaaaaaaaaaaa\r\nbbbbbbbbbbbbbb\r\naaaaaaaaaaaaaa\r\ncccccccccccccc\r\n"}}},
  };
  for (const auto& [name, objects] : wanted) {
    SCOPED_TRACE(name);
    const fs::path path = kArchives / (name + ".zip");
    zip_store store(path);
    const auto parsed = parse(contents_of(path));
    ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
    std::vector<std::string> keys;
    for (const auto& [key, entry] : parsed->entries) keys.push_back(key);
    EXPECT_EQ(parsed->entries.size(), objects.size()) << testing::PrintToString(keys);
    for (const auto& [key, text] : objects) {
      const auto read = read_now(store, key);
      ASSERT_TRUE(read.ok()) << key << ": " << read.error().to_string() << testing::PrintToString(keys);
      EXPECT_EQ(read->text, text);
      if (text.size() < 3) continue;
      const auto some = read_now(store, key, {1, 2, false}, &read->seen);  // of compressed entries too
      ASSERT_TRUE(some.ok()) << some.error().to_string();
      EXPECT_EQ(some->text, text.substr(1, 2));
      EXPECT_EQ(read_now(store, key, {0, 2, true})->text, text.substr(text.size() - 2));
    }
  }
}

TEST(ZipDirectory, InflatesDeflatedEntries) {
  zip_store store(kArchives / "yauzl/success/deflate.zip");
  const auto read = read_now(store, "index.js");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->text.size(), 10689u);
  EXPECT_EQ(read->text.substr(0, 24), "var fs = require(\"fs\");\n");
  EXPECT_EQ(read_now(store, "index.js", {4, 2, false})->text, "fs");
}

TEST(ZipDirectory, RefusesTheDamageNamedByTheFile) {
  const std::map<std::string, std::string> wanted = {
      {"End_of_central_directory_record_signature_not_found_Either_not_a_zip_file_or_file_is_truncated",
       "corrupt_data: this is not a zip archive, or its end is missing: there is no end-of-central-directory record"},
      {"End_of_central_directory_record_signature_not_found_Either_not_a_zip_file_or_file_is_truncated_2",
       "corrupt_data: this is not a zip archive, or its end is missing: there is no end-of-central-directory record"},
      {"compressed_uncompressed_size_mismatch_for_stored_file_2147483647_5",
       "corrupt_data: the zip entry 'a.txt' exceeds the file: 2147483647 bytes at 0, the directory begins at 136"},
      {"expected_zip64_extended_information_extra_field",
       "corrupt_data: the zip entry 'empty.txt' exceeds the file: 4294967295 bytes at 4294967295, the directory begins "
       "at 63"},
      {"extra_field_length_exceeds_extra_field_buffer_size",
       "corrupt_data: an extra field of the zip entry 'b.txt' has 12 bytes, only 11 exist"},
      {"file_data_overflows_file_bounds_63_2147483647_308",
       "corrupt_data: the zip entry 'a.txt' exceeds the file: 2147483647 bytes at 0, the directory begins at 136"},
      {"invalid_central_directory_file_header_signature_0x1014b50",
       "corrupt_data: there is no entry at byte 75 of the zip archive's directory"},
      {"invalid_zip64_end_of_central_directory_record_signature",
       "corrupt_data: the zip64 end-of-central-directory record is not at the position in its locator"},
      {"multivolume_zip_files_are_not_supported_this_is_volume_1",
       "unsupported: zip archives of several volumes are not supported"},
      {"zip64_extended_information_extra_field_does_not_include_compressed_size",
       "corrupt_data: the zip64 extended information of the entry 'empty.txt' lacks its compressed size"},
      {"zip64_extended_information_extra_field_does_not_include_relative_header_offset",
       "corrupt_data: the zip64 extended information of the entry 'empty.txt' lacks its relative header offset"},
      {"zip64_extended_information_extra_field_does_not_include_uncompressed_size",
       "corrupt_data: the zip64 extended information of the entry 'empty.txt' lacks its uncompressed size"},
  };
  for (const auto& [name, message] : wanted)
    EXPECT_EQ(complaint(contents_of(kArchives / "yauzl/failure" / (name + ".zip"))), message) << name;
}

TEST(ZipDirectory, RefusesEntriesThatItCannotRead) {
  const struct {
    const char *archive, *key, *message;
  } cases[] = {
      {"yauzl/failure/invalid_local_file_header_signature_0x3034b50.zip", "b.txt",
       "corrupt_data: there is no local header of a zip entry at byte 68"},
      {"yauzl/failure/strong_encryption_is_not_supported.zip", "a.txt",
       "unsupported: encrypted zip entries are not supported"},
      {"yauzl/failure/unsupported_compression_method_1.zip", "b.txt",
       "unsupported: zip entries of compression method 1, shrunk are not supported"},
  };
  for (const auto& each : cases) {
    zip_store store(kArchives / each.archive);
    const auto read = read_now(store, each.key);
    ASSERT_FALSE(read.ok()) << each.archive;
    EXPECT_EQ(read.error().to_string(), each.message);
  }
}

TEST(ZipDirectory, ReadsItsOwnArchives) {
  const bytes file = archive_of({{"a", entry_at(0, 10)}, {"b/c", entry_at(41, 0)}, {"ü", entry_at(80, 5)}});
  const auto parsed = parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->entries.size(), 3u);
  EXPECT_EQ(parsed->entries.at("a").limit, 41u);
  EXPECT_EQ(parsed->entries.at("b/c").limit, 80u);
  EXPECT_EQ(parsed->data_end, 80u + 30 + 2 + 5);
}

TEST(ZipDirectory, NumbersBeyond32BitsAreWrittenAndRead) {
  zip_directory directory;
  constexpr std::uint64_t kFar = std::uint64_t{5} << 32;
  directory.entries.emplace("near", entry_at(0, 10));
  directory.entries.emplace("long", entry_at(100, kFar));
  directory.entries.emplace("far", entry_at(kFar + 500, 10));
  const std::uint64_t begin = kFar + 1000;
  const bytes tail = make_zip_directory(directory, begin, "a comment");
  const zip_reader reader = [&](std::uint64_t offset, std::span<std::byte> room) -> result<> {
    for (std::size_t i = 0; i < room.size(); ++i)  // five times 4 GiB of zeros precede
      room[i] = offset + i < begin ? std::byte{0} : tail.at(offset + i - begin);
    return {};
  };
  const auto end = find_zip_end(reader, begin + tail.size());
  ASSERT_TRUE(end.ok()) << end.error().to_string();
  EXPECT_EQ(end->directory_offset, begin);
  EXPECT_EQ(end->entries, 3u);
  EXPECT_EQ(end->comment, "a comment");
  const auto parsed = parse_zip_directory(std::span(tail).first(end->directory_bytes), *end);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->entries.at("long").encoded_bytes, kFar);
  EXPECT_EQ(parsed->entries.at("far").header_offset, kFar + 500);
}

TEST(ZipDirectory, MoreThan65535EntriesAreWrittenAndRead) {
  std::vector<std::pair<std::string, zip_entry>> entries;
  for (std::uint64_t i = 0; i < 70'000; ++i) entries.emplace_back(std::to_string(i), entry_at(i * 40, 1));
  const auto parsed = parse(archive_of(entries, 70'000 * 40));
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->entries.size(), 70'000u);
  EXPECT_EQ(parsed->entries.at("69999").header_offset, 69'999u * 40);
}

TEST(ZipDirectory, FindsAnArchiveAfterAPrefix) {
  bytes file = to_bytes("#!/bin/sh\nexec unpack $0\n");
  const bytes archive = contents_of(kArchives / "yauzl/success/linux-info-zip.zip");
  const std::size_t prefix = file.size();
  file.insert(file.end(), archive.begin(), archive.end());
  const auto parsed = parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->entries.at("a.txt").header_offset, prefix);
}

TEST(ZipDirectory, OverlappingEntriesAreRefused) {
  EXPECT_EQ(complaint(archive_of({{"a", entry_at(0, 100)}, {"b", entry_at(50, 100)}})),
            "corrupt_data: entries of the zip archive overlap: one begins at byte 50, another ends at 131");
  EXPECT_EQ(complaint(archive_of({{"a", entry_at(0, 100)}, {"b", entry_at(0, 100)}})),
            "corrupt_data: entries of the zip archive overlap: one begins at byte 0, another ends at 131");
}

TEST(ZipDirectory, NamesThatLeaveTheRootAreRefused) {
  for (const char* name : {"../a", "a/../../b", "/etc/passwd", "a//b", "..", ""}) {
    const auto parsed = parse(archive_of({{name, entry_at(0, 1)}}));
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.error().code(), errc::corrupt_data) << name;
  }
}

TEST(ZipDirectory, AbsurdCountsAndSizesCostNothing) {
  const bytes good = archive_of({{"a", entry_at(0, 1)}});
  const std::size_t record = good.size() - kZipEndBytes;
  bytes bad = good;
  put_number(bad, record + 8, 60000, 2);
  put_number(bad, record + 10, 60000, 2);
  EXPECT_EQ(complaint(bad), "corrupt_data: the zip archive cannot have 60000 entries in a directory of 47 bytes");
  bad = good;
  put_number(bad, record + 12, 0xfffffff0, 4);
  EXPECT_EQ(
      complaint(bad),
      "corrupt_data: the zip archive's directory would be 4294967280 bytes at 1000, it must end before byte 1047");
  bad = good;
  put_number(bad, record + 8, 0, 2);
  put_number(bad, record + 10, 0, 2);
  EXPECT_EQ(complaint(bad), "corrupt_data: the zip archive's directory has 47 bytes after its 0 entries");
}

TEST(ZipDirectory, EveryCutOfAnArchiveIsRefused) {
  const bytes file = contents_of(kArchives / "yauzl/success/zip64.zip");
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(parse(bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size))).ok()) << size;
}

TEST(ZipDirectory, AStoredEntryHasItsStoredSize) {
  zip_entry entry = entry_at(0, 5);
  entry.decoded_bytes = 7;
  EXPECT_EQ(complaint(archive_of({{"a", entry}})), "corrupt_data: the zip entry 'a' is stored as 5 bytes and has 7");
}

TEST(ZipDirectory, TheLastEntryOfANameCounts) {
  // As zipfile writes if a key is set twice.
  zip_directory first, second;
  first.entries.emplace("k", entry_at(0, 3));
  second.entries.emplace("k", entry_at(40, 3));
  const bytes one = make_zip_directory(first, 0, ""), two = make_zip_directory(second, 0, "");
  bytes file(100);
  file.insert(file.end(), one.begin(), one.end() - kZipEndBytes);
  file.insert(file.end(), two.begin(), two.end() - kZipEndBytes);
  const std::size_t directory = file.size() - 100;
  file.insert(file.end(), two.end() - kZipEndBytes, two.end());
  put_number(file, file.size() - 14, 2, 2);
  put_number(file, file.size() - 12, 2, 2);
  put_number(file, file.size() - 10, directory, 4);
  put_number(file, file.size() - 6, 100, 4);
  const auto parsed = parse(file);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->entries.at("k").header_offset, 40u);
}

}  // namespace
}  // namespace penstock::test
