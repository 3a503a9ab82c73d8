// Exceptions of stores, codecs and drivers of other projects are errors of the call, on every thread.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <penstock/extend/codec.h>
#include <penstock/extend/driver.h>
#include <penstock/extend/layout_base.h>
#include <penstock/extend/scheme.h>
#include <penstock/penstock.h>

namespace penstock::test {
namespace {

/// Passes calls to a store in memory. While it is `armed`, every other call for a chunk throws.
class throwing_store final : public store {
 public:
  explicit throwing_store(bool later) : later_(later), under_(make_memory_store()) {}

  store_traits traits() const override {
    store_traits out = under_->traits();
    out.inline_completion = out.inline_writes = !later_;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    for (const byte_read& each : reads) {
      act(each.key);
      under_->read({&each, 1}, sink, stop);
    }
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    act(key);
    return under_->put(key, parts, condition);
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    act(key);
    return under_->erase(key, condition);
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return under_->list(prefix, what, sink);
  }
  std::string uri() const override { return "throwing:"; }

  bool armed = false;
  /// While it is false, calls for a chunk wait, except those of the thread that made the store.
  std::atomic<bool> lets_others{true};

 private:
  void act(std::string_view key) const {
    if (key.starts_with("c/") && std::this_thread::get_id() != maker_) lets_others.wait(false);
    if (armed && key.starts_with("c/") && calls_++ % 2 == 1) throw std::runtime_error("disk on fire");
  }

  const bool later_;
  const std::thread::id maker_ = std::this_thread::get_id();
  std::shared_ptr<store> under_;
  mutable std::atomic<unsigned> calls_{0};
};

create_options of_size(std::uint64_t items, std::uint64_t chunk) {
  create_options out;
  out.shape = {items};
  out.chunks = extents{chunk};
  out.type = *dtype::from_name("int32");
  context_options with;
  with.threads = 4;
  out.context = context::make(with).value();
  return out;
}

tensor_view view_of(std::vector<std::int32_t>& values) {
  return tensor_view::contiguous(values.data(), *dtype::from_name("int32"), {values.size()});
}

class Exceptions : public testing::TestWithParam<bool> {
 protected:
  /// Large enough for several threads, in 64 chunks.
  static constexpr std::uint64_t kItems = std::uint64_t{1} << 18;

  Exceptions() : store_(std::make_shared<throwing_store>(GetParam())), values_(kItems) {
    std::iota(values_.begin(), values_.end(), 1);
    array_.emplace(create_array(store_, of_size(kItems, kItems / 64)).value());
    EXPECT_TRUE(array_->write(selection(basic_selection()), view_of(values_)).ok());
  }

  static void expect_named(const result<>& done) {
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code(), errc::io_error);
    const std::string text = done.error().to_string();
    EXPECT_NE(text.find("the store threw an exception: disk on fire"), std::string::npos) << text;
    EXPECT_NE(text.find("'c/"), std::string::npos) << text;
    EXPECT_NE(text.find("array 'throwing:"), std::string::npos) << text;
  }

  std::shared_ptr<throwing_store> store_;
  std::vector<std::int32_t> values_;
  std::optional<array> array_;
};

TEST_P(Exceptions, OfAStoreAreErrorsOfReads) {
  std::vector<std::int32_t> out(kItems);
  store_->armed = true;
  expect_named(array_->read(view_of(out)));
  auto ticket = array_->read_async(selection(basic_selection()), view_of(out));
  ASSERT_TRUE(ticket.ok());
  expect_named(ticket->wait());
  store_->armed = false;
  ASSERT_TRUE(array_->read(view_of(out)).ok());
  EXPECT_EQ(out, values_);
}

TEST_P(Exceptions, OfAStoreAreErrorsOfWrites) {
  std::vector<std::int32_t> twice(kItems, 7);
  store_->armed = true;
  expect_named(array_->write(selection(basic_selection()), view_of(twice)));
  const basic_selection parts{{slice{1, static_cast<std::int64_t>(kItems), 2}}};  // every chunk is read before
  std::vector<std::int32_t> half(kItems / 2, 9);
  expect_named(array_->write(selection(parts), view_of(half)));
  auto ticket = array_->write_async(selection(basic_selection()), view_of(twice));
  ASSERT_TRUE(ticket.ok());
  expect_named(ticket->wait());
  store_->armed = false;
  ASSERT_TRUE(array_->write(selection(basic_selection()), view_of(values_)).ok());
  std::vector<std::int32_t> out(kItems);
  ASSERT_TRUE(array_->read(view_of(out)).ok());
  EXPECT_EQ(out, values_);
}

INSTANTIATE_TEST_SUITE_P(Stores, Exceptions, testing::Bool(),
                         [](const auto& each) { return each.param ? "Later" : "Inline"; });

/// Copies bytes, and throws while it is armed.
class throwing_codec final : public byte_codec {
 public:
  std::string_view name() const override { return "throws"; }
  std::string describe() const override { return "throws()"; }
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override { return decoded_bytes; }
  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    if (armed) throw std::out_of_range("no such symbol");
    if (encoded.size() > out.size()) return out_of_room(scratch, "too long");
    std::copy(encoded.begin(), encoded.end(), out.begin());
    return std::span<const std::byte>(out.first(encoded.size()));
  }
  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    if (armed) throw std::bad_alloc();
    std::copy(decoded.begin(), decoded.end(), out.begin());
    return decoded.size();
  }

  static inline std::atomic<bool> armed{false};
};

class provider_of_it final : public codec_provider {
 public:
  result<compiled_codec> make(const codec_config& config, const stage_type& input) const override {
    if (config.name == "fails") throw std::logic_error("not finished");
    if (config.name != "throws") return error(errc::unsupported, "no such codec");
    return compressed_stage(std::make_shared<throwing_codec>(), input);
  }
};

TEST(ExceptionsOfExtensions, OfACodecNameIt) {
  constexpr std::uint64_t kItems = std::uint64_t{1} << 18;
  create_options how = of_size(kItems, kItems / 64);
  context_options with;
  with.threads = 4;
  with.codecs = {std::make_shared<provider_of_it>()};
  how.context = context::make(with).value();
  how.codecs_json = R"(["bytes", {"name": "throws"}])";
  const array made = create_array(make_memory_store(), how).value();
  std::vector<std::int32_t> values(kItems, 3);
  ASSERT_TRUE(made.write(selection(basic_selection()), view_of(values)).ok());
  throwing_codec::armed = true;
  const auto read = made.read(view_of(values));
  const auto written = made.write(selection(basic_selection()), view_of(values));
  throwing_codec::armed = false;
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), errc::io_error);
  const std::string text = read.error().to_string();
  EXPECT_NE(text.find("the codec threw an exception: no such symbol"), std::string::npos) << text;
  EXPECT_NE(text.find("decoding with throws()"), std::string::npos) << text;
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), errc::resource_exhausted) << written.error().to_string();

  how.codecs_json = R"(["bytes", {"name": "fails"}])";
  const auto refused = create_array(make_memory_store(), how);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().to_string().find("not finished"), std::string::npos) << refused.error().to_string();
}

/// Recognises files that begin with "boom", and throws.
class throwing_driver final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "boom"; }
  std::span<const std::string_view> endings() const noexcept override { return kEndings; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return begin.size() >= 4 && begin[0] == std::byte{'b'} && begin[3] == std::byte{'m'};
  }
  result<node> open(const location&, const open_options&) const override { throw std::out_of_range("header[7]"); }

 private:
  static constexpr std::string_view kEndings[] = {"boom"};
};

class throwing_scheme final : public uri_scheme {
 public:
  std::string_view name() const noexcept override { return "boom"; }
  result<place> find(std::string_view, const place_options&) const override { throw std::runtime_error("no route"); }
};

TEST(ExceptionsOfExtensions, OfADriverAndASchemeAreErrorsOfOpen) {
  context_options with;
  with.drivers = {std::make_shared<throwing_driver>()};
  with.schemes = {std::make_shared<throwing_scheme>()};
  open_options how;
  how.context = context::make(with).value();
  const auto scheme = open("boom:x", how);
  ASSERT_FALSE(scheme.ok());
  EXPECT_NE(scheme.error().to_string().find("the scheme threw an exception: no route"), std::string::npos)
      << scheme.error().to_string();
  const auto files = make_memory_store();
  const std::string text = "boom, and more";
  const part whole = std::as_bytes(std::span(text));
  ASSERT_TRUE(files->put("x.boom", {&whole, 1}, {}).ok());
  how.path = "x.boom";
  const auto file = open(std::shared_ptr<const store>(files), how);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), errc::io_error);
  EXPECT_NE(file.error().to_string().find("the driver threw an exception: header[7]"), std::string::npos)
      << file.error().to_string();
}

/// Each cell is an object of its own, whose name cannot be found while the layout is armed.
class throwing_layout final : public layout_base {
 public:
  explicit throwing_layout(layout_parts parts) noexcept : layout_base(std::move(parts)) {}

  result<> locate(std::span<const cell_id> cells, const index_lookup&, std::span<chunk_extent> out,
                  std::vector<index_request>&) const override {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      out[i].object = cells[i];
      out[i].state = presence::present;
    }
    return {};
  }
  void key(object_id object, std::string& out) const override {
    if (armed && object % 2 == 1) throw std::length_error("no name");
    out = "c" + std::to_string(object);
  }
  std::string describe(cell_id cell) const override { return "cell " + std::to_string(cell); }
  const object_assembler* assembler() const override { return &by_; }

  static inline std::atomic<bool> armed{false};

 private:
  struct one_cell final : object_assembler {
    result<> assemble(object_id, const part*, std::span<const new_cell> cells, assembled_object& out) const override {
      out.clear();
      for (const new_cell& each : cells) {
        if (each.absent) continue;
        out.parts.push_back(each.bytes);
        out.bytes += each.bytes.size();
      }
      return {};
    }
  };
  one_cell by_;
};

class driver_of_it final : public format_driver {
 public:
  static constexpr std::uint64_t kItems = std::uint64_t{1} << 18, kCell = kItems / 64;

  std::string_view name() const noexcept override { return "odd"; }
  std::span<const std::string_view> endings() const noexcept override { return kEndings; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return begin.size() >= 3 && begin[0] == std::byte{'o'} && begin[2] == std::byte{'d'};
  }
  result<node> open(const location& at, const open_options& how) const override {
    array_description what;
    what.format = "odd";
    what.shape = {kItems};
    what.type = *dtype::from_name("int32");
    const cell_coding coding{{kCell}, R"([{"name": "bytes", "configuration": {"endian": "little"}}])"};
    PENSTOCK_ASSIGN(chunk_grid grid, chunk_grid::regular({kItems}, {kCell}));
    PENSTOCK_ASSIGN(layout_parts parts, layout_parts::make(*at.context, what.type, std::move(grid), {&coding, 1}));
    PENSTOCK_ASSIGN(array made,
                    make_array(at, std::make_shared<throwing_layout>(std::move(parts)), std::move(what), how));
    return node(std::move(made));
  }

 private:
  static constexpr std::string_view kEndings[] = {"odd"};
};

TEST(ExceptionsOfExtensions, OfALayoutAreErrorsOfReadsAndWrites) {
  context_options with;
  with.threads = 4;
  with.drivers = {std::make_shared<driver_of_it>()};
  open_options how;
  how.context = context::make(with).value();
  how.path = "x.odd";
  const auto in = make_memory_store();
  const std::string text = "odd";
  const part whole = std::as_bytes(std::span(text));
  ASSERT_TRUE(in->put(how.path, {&whole, 1}, {}).ok());
  const auto made = open_array(in, how);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  const array& opened = *made;
  std::vector<std::int32_t> values(driver_of_it::kItems, 5), out(values.size());
  ASSERT_TRUE(opened.write(selection(basic_selection()), view_of(values)).ok());
  throwing_layout::armed = true;
  const auto written = opened.write(selection(basic_selection()), view_of(values));
  const auto read = opened.read(view_of(out));
  throwing_layout::armed = false;
  for (const auto* each : {&written, &read}) {
    ASSERT_FALSE(each->ok());
    EXPECT_EQ(each->error().code(), errc::io_error);
    const std::string message = each->error().to_string();
    EXPECT_NE(message.find("the layout threw an exception: no name"), std::string::npos) << message;
  }
  ASSERT_TRUE(opened.read(view_of(out)).ok());
  EXPECT_EQ(out, values);
}

TEST(ExceptionsOfExtensions, OfAProgressFunctionReachTheCallerWhenTheReadIsDone) {
  constexpr std::uint64_t kItems = std::uint64_t{1} << 18;
  const auto in = std::make_shared<throwing_store>(false);
  const array made = create_array(in, of_size(kItems, kItems / 64)).value();
  std::vector<std::int32_t> values(kItems, 3);
  ASSERT_TRUE(made.write(selection(basic_selection()), view_of(values)).ok());
  read_options options;
  options.poll_interval = std::chrono::nanoseconds(0);
  options.progress = [&](const read_progress&) -> bool {
    in->lets_others = true;
    in->lets_others.notify_all();
    throw std::runtime_error("no screen");
  };
  in->lets_others = false;  // or other threads could end the read before the first call of `progress`
  std::vector<std::int32_t> out(kItems);
  EXPECT_THROW(static_cast<void>(made.read(view_of(out), options)), std::runtime_error);
  EXPECT_EQ(out, values);
}

}  // namespace
}  // namespace penstock::test
