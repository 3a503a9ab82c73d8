// Gates that do not depend on time: the allocations of a warm read, its system calls, and the requests to the store.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <penstock/penstock.h>
#include <penstock/tiff.h>
#include <penstock/variable.h>
#include "contract/fault_store.h"
#include "store/store_fixture.h"
#include "support/call_counts.h"
#include "support/model_array.h"

namespace penstock::test {
namespace {

constexpr const char* kZstd =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}])";

// 256 rows of one 8 KiB chunk each; four shards of 64 rows if `sharded`.
model_options rows(bool sharded) {
  model_options out;
  out.shape = {256, 2048};
  out.chunks = {1, 2048};
  if (sharded) out.shards = extents{64, 2048};
  out.codecs = kZstd;
  return out;
}

basic_selection row(std::int64_t which) { return {{which}}; }

struct reader {
  explicit reader(const array& opened) : from(opened), values(2048) {}
  result<> operator()(const selection& which, const extents& shape = {2048}) {
    return from.read(which, tensor_view::contiguous(values.data(), from.type(), shape));
  }
  const array& from;
  std::vector<std::int32_t> values;
};

array open_at(const std::shared_ptr<const store>& from) { return open_array(from).value(); }

call_counts cost_of(const std::function<result<>()>& read) {
  result<> done;
  const call_counts out = count_calls([&] { done = read(); });
  EXPECT_TRUE(done.ok()) << done.error().to_string();
  return out;
}

TEST(Gates, AWarmSmallReadOfMemoryAllocatesNothing) {
  for (const bool sharded : {false, true}) {
    const auto store = make_memory_store();
    const model_array model = write_model(*store, "", rows(sharded));
    const array opened = open_at(store);
    reader read(opened);
    const selection which = row(77);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(read(which).ok());
    EXPECT_EQ(cost_of([&] { return read(which); }), call_counts{}) << "sharded " << sharded;
    EXPECT_EQ(std::memcmp(read.values.data(), model.values.data() + 77 * 8192, 8192), 0);
  }
}

TEST(Gates, AWarmSmallReadOfAFileMakesTheCallsItNeedsAndAllocatesNothing) {
  for (const bool sharded : {false, true}) {
    const temporary_folder folder;
    const auto store = open_file_store(folder.path().string());
    write_model(*store, "", rows(sharded));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that the files' times are old enough to trust
    const array opened = open_at(store);
    reader read(opened);
    const selection which = row(77);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(read(which).ok());
    call_counts expected;
    if (sharded) {
      expected.stats = 1;
      expected.preads = 1;
    } else {
      expected.opens = expected.fstats = expected.reads = expected.closes = 1;
    }
    EXPECT_EQ(cost_of([&] { return read(which); }), expected) << "sharded " << sharded;
  }
}

// One or two strips of one row each, of bytes; the strips are after the directory, whose entries are of shorts.
std::string small_tiff(std::uint16_t width, std::uint16_t compression, const std::vector<std::string>& strips) {
  constexpr std::uint16_t kFirst = 8 + 2 + 9 * 12 + 4;
  const auto rows = static_cast<std::uint16_t>(strips.size()), bytes = static_cast<std::uint16_t>(strips[0].size());
  const std::uint16_t second = rows > 1 ? kFirst + bytes : 0, its_bytes = rows > 1 ? bytes : 0;
  const std::array<std::array<std::uint16_t, 4>, 9> tags = {{{256, 1, width},
                                                             {257, 1, rows},
                                                             {258, 1, 8},
                                                             {259, 1, compression},
                                                             {262, 1, 1},
                                                             {273, rows, kFirst, second},
                                                             {277, 1, 1},
                                                             {278, 1, 1},
                                                             {279, rows, bytes, its_bytes}}};
  std::string out("II*\0\x08\0\0\0", 8);
  const auto append = [&out](std::uint32_t number, unsigned size) {
    for (unsigned i = 0; i < size; ++i) out.push_back(static_cast<char>(number >> 8 * i & 0xff));
  };
  append(tags.size(), 2);
  for (const auto& [tag, count, value, next] : tags) {
    append(tag, 2);
    append(3, 2);
    append(count, 4);
    append(value, 2);
    append(next, 2);
  }
  append(0, 4);
  for (const std::string& strip : strips) out += strip;
  return out;
}

TEST(Gates, OpeningATiffReadsItsFileOnceAndLooksForNoOther) {
  const temporary_folder folder;
  std::ofstream(folder.path() / "x.tif") << small_tiff(1, 5, {"?"});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that the file's times are old enough to trust
  open_options where;
  where.context = context::make().value();
  where.path = "x.tif";
  const auto store = open_file_store(folder.path().string());
  std::optional<result<array>> opened;
  call_counts made = count_calls([&] { opened.emplace(open_tiff(store, where, {})); });
  ASSERT_TRUE(opened->ok()) << opened->error().to_string();
  EXPECT_LE(made.allocations, 72);  // text that only an error needs is not formatted
  made.allocations = 0;
  call_counts expected;
  expected.opens = expected.fstats = expected.preads = 1;
  EXPECT_EQ(made, expected);
  EXPECT_FALSE(tiff_companions_of(**opened).has_mask);
}

// The system calls of `open(path)` for local files, for each format.
call_counts cost_of_opening(const std::filesystem::path& path) {
  open_options how;
  how.context = context::make().value();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that the file's times are old enough to trust
  call_counts out = cost_of([&]() -> result<> {
    PENSTOCK_TRY(open(path.string(), how));
    return {};
  });
  out.allocations = out.closes = 0;
  return out;
}

std::string small_npy() {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
  header.append(128 - 10 - header.size() - 1, ' ').append("\n");
  std::string out("\x93NUMPY\x01\x00", 8);
  out.push_back(static_cast<char>(header.size()));
  out.push_back('\0');
  return out + header + std::string(12, '\1');
}

TEST(Gates, OpeningAFileReadsItsFirstBytesOnce) {
  const temporary_folder folder;
  std::ofstream(folder.path() / "x.tif") << small_tiff(1, 5, {"?"});
  std::ofstream(folder.path() / "picture") << small_tiff(1, 5, {"?"});
  std::ofstream(folder.path() / "x.npy") << small_npy();
  std::ofstream(folder.path() / "rows") << small_npy();
  for (const char* const name : {"x.tif", "picture", "x.npy", "rows"}) {
    SCOPED_TRACE(name);
    call_counts expected;
    expected.opens = expected.fstats = expected.preads = 1;
    expected.stats = std::string_view(name).find('.') == std::string_view::npos ? 1 : 0;  // a file, or a folder?
    EXPECT_EQ(cost_of_opening(folder.path() / name), expected);
  }
}

TEST(Gates, OpeningAZarrNodeReadsItsDocumentsAndNothingElse) {
  const temporary_folder folder;
  const std::shared_ptr<store> at = open_file_store((folder.path() / "x.zarr").string());
  for (const int version : {2, 3}) {
    create_options what;
    what.path = version == 2 ? "v2" : "v3";
    what.zarr_format = version;
    what.shape = {4};
    what.type = dtype(dtype_kind::signed_integer, 32);
    ASSERT_TRUE(create_array(at, what).ok());
  }
  call_counts v3, v2;
  v3.stats = v2.stats = 1;  // whether the path is a file or a folder
  v3.opens = 1;             // zarr.json
  v3.fstats = 1;
  v2.opens = 3;  // zarr.json, .zarray, .zattrs
  v2.fstats = 2;
  v3.reads = 1;
  v2.reads = 2;
  EXPECT_EQ(cost_of_opening(folder.path() / "x.zarr/v3"), v3);
  EXPECT_EQ(cost_of_opening(folder.path() / "x.zarr/v2"), v2);
}

TEST(Gates, AWindowOfCachedChunksQueriesTheirFileOnceAndAllocatesNothing) {
  const temporary_folder folder;
  std::ofstream(folder.path() / "x.tif") << small_tiff(4, 32773, {"\003abcd", "\003efgh"});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that the file's times are old enough to trust
  open_options where;
  where.context = context::make().value();
  where.path = "x.tif";
  const array opened = open_tiff(open_file_store(folder.path().string()), where, {}).value();
  std::array<char, 4> values{};
  const selection window = basic_selection{{slice{}, slice{}, slice{1, 3, {}}}};
  const auto read = [&] {
    return opened.read(window, tensor_view::contiguous(values.data(), opened.type(), {1, 2, 2}));
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(read().ok());
  values = {};
  call_counts expected;
  expected.fstats = 1;
  EXPECT_EQ(cost_of(read), expected);
  EXPECT_EQ(std::string(values.data(), 4), "bcfg");
}

TEST(Gates, AWarmWriteAllocatesForTheObjectAndNotForItsChunks) {
  context_options with;
  with.threads = 1;  // all work is on the thread that counts
  open_options where;
  where.context = context::make(with).value();
  call_counts of_small, of_large;
  for (call_counts* const counted : {&of_small, &of_large}) {
    model_options options = rows(true);
    if (counted == &of_large) options.shards = extents{256, 2048};
    const auto store = make_memory_store();
    write_model(*store, "", options);
    array opened = open_array(store, where).value();
    const std::uint64_t height = (*options.shards)[0];
    std::vector<std::int32_t> values(height * 2048);
    std::iota(values.begin(), values.end(), 1);
    const basic_selection first{{slice{0, static_cast<std::int64_t>(height), {}}}};
    const selection which(first);
    const auto write = [&] {
      return opened.write(which, tensor_view::contiguous(values.data(), opened.type(), {height, 2048}));
    };
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(write().ok());
    *counted = cost_of(write);
  }
  EXPECT_EQ(of_small, of_large);
  EXPECT_LE(of_large.allocations, 8);
}

TEST(Gates, TwoNeighboursInAShardAreOneRequest) {
  const auto memory = make_memory_store();
  write_model(*memory, "", rows(true));
  const auto counted = std::make_shared<fault_store>(memory);
  const array opened = open_at(counted);
  std::vector<std::int32_t> values(2 * 2048);
  counted->reset_counts();
  const basic_selection both{{slice{64, 66, {}}}};
  ASSERT_TRUE(opened.read(selection(both), tensor_view::contiguous(values.data(), opened.type(), {2, 2048})).ok());
  EXPECT_EQ(counted->of("c/1/0").requests, 2u);  // the index, then both chunks
  counted->reset_counts();
  ASSERT_TRUE(opened.read(selection(both), tensor_view::contiguous(values.data(), opened.type(), {2, 2048})).ok());
  EXPECT_EQ(counted->total().requests, 1u);
}

TEST(Gates, TenThousandSmallReadsOfOneShardReadTheIndexOnceAndLittleElse) {
  model_options options;
  options.shape = {400 * 1000};
  options.chunks = {1000};
  options.shards = extents{400 * 1000};
  options.codecs = kZstd;
  const auto memory = make_memory_store();
  const model_array model = write_model(*memory, "", options);
  const auto counted = std::make_shared<fault_store>(memory);
  const array opened = open_at(counted);

  std::vector<std::int32_t> values(1000);
  std::vector<std::uint64_t> chunk_bytes(400);  // the bytes of each chunk in the shard
  const auto read = [&](std::int64_t start, std::int64_t count) {
    const basic_selection which{{slice{start, start + count, {}}}};
    ASSERT_TRUE(opened
                    .read(selection(which),
                          tensor_view::contiguous(values.data(), opened.type(), {static_cast<std::uint64_t>(count)}))
                    .ok());
  };
  counted->reset_counts();
  read(0, 1);
  const std::uint64_t index_bytes = 400 * 16 + 4;
  chunk_bytes[0] = counted->total().bytes - index_bytes;
  for (std::int64_t i = 1; i < 400; ++i) {
    counted->reset_counts();
    read(i * 1000, 1);
    ASSERT_EQ(counted->total().requests, 1u);
    chunk_bytes[static_cast<std::size_t>(i)] = counted->total().bytes;
  }
  std::mt19937_64 random(5);
  std::uint64_t requests = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto start = static_cast<std::int64_t>(random() % (400 * 1000 - 100));
    counted->reset_counts();
    read(start, 100);
    std::uint64_t needed = 0;
    for (std::int64_t chunk = start / 1000; chunk <= (start + 99) / 1000; ++chunk)
      needed += chunk_bytes[static_cast<std::size_t>(chunk)];
    ASSERT_LE(counted->total().bytes * 10, needed * 12) << "at " << start;
    ASSERT_EQ(std::memcmp(values.data(), model.values.data() + start * 4, 400), 0) << "at " << start;
    requests += counted->total().requests;
  }
  EXPECT_LE(requests, 11'500u);  // one each, two if a gap is between the chunks of a pair; never an index
}

TEST(Gates, AbsentChunksByACachedIndexCostOneCheck) {
  model_options options = rows(true);
  options.missing = 1;
  options.shape = {64, 2048};
  const auto memory = make_memory_store();
  write_model(*memory, "", options);
  const auto counted = std::make_shared<fault_store>(memory);
  const array opened = open_at(counted);
  reader read(opened);
  counted->reset_counts();
  ASSERT_TRUE(read(row(3)).ok());
  EXPECT_EQ(counted->total().requests, 1u);  // the shard does not exist: only its index is requested
  EXPECT_EQ(read.values, std::vector<std::int32_t>(2048));
}

TEST(Gates, MemoryInAdditionToTheResultStaysSmall) {
  model_options options;
  options.shape = {4000, 2048};
  options.chunks = {40, 2048};
  options.shards = extents{400, 2048};
  options.codecs = kZstd;
  const auto store = make_memory_store();
  write_model(*store, "", options);
  context_options with;
  with.threads = 2;
  open_options where;
  where.context = context::make(with).value();
  const array opened = open_array(store, where).value();
  std::vector<std::int32_t> values(4000 * 2048);
  ASSERT_TRUE(opened.read(tensor_view::contiguous(values.data(), opened.type(), opened.shape())).ok());
  const context_usage usage = where.context->usage();
  EXPECT_LE(usage.peak_scratch_bytes + usage.peak_encoded_bytes + usage.peak_index_bytes, std::uint64_t{16} << 20);
}

int allocations_before_failure = 0;

void fail_at_zero() {
  if (allocations_before_failure-- == 0) throw std::bad_alloc();
  at_allocation = fail_at_zero;
}

// Not a gate, but it needs this program's allocator.
TEST(Appender, ClosesAfterAnAllocationFailed) {
  const std::vector<std::string> texts(10, "longer than a short string");
  std::vector<variable_item> items;
  for (const std::string& each : texts) items.push_back({reinterpret_cast<const std::byte*>(each.data()), each.size()});
  bool failed = true;
  for (int number = 0; failed; ++number) {
    ASSERT_LT(number, 1000);
    create_options how;
    how.shape = {0};
    how.chunks = extents{4};
    how.type = *dtype::from_name("string");
    const array text = create_array(make_memory_store(), how).value();
    appender by = appender::make(text, 0).value();
    const tensor_view rows =
        tensor_view::contiguous(reinterpret_cast<std::byte*>(items.data()), text.type(), {items.size()});
    allocations_before_failure = number;
    at_allocation = fail_at_zero;
    try {
      const auto done = by.append(rows);
      EXPECT_TRUE(done.ok() || done.error().code() == errc::resource_exhausted) << number;
    } catch (const std::bad_alloc&) {
    }
    failed = at_allocation == nullptr;
    at_allocation = nullptr;
    const auto after = by.close();
    ASSERT_TRUE(after.ok()) << number << ": " << after.error().to_string();
    EXPECT_EQ(after->shape()[0], by.rows()) << number;
    EXPECT_LE(by.rows(), items.size()) << number;
  }
}

}  // namespace
}  // namespace penstock::test
