#pragma once

// The requirements of every driver of a format that is one object. A new driver is one more driver_case in
// driver_contract_test.cc.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <penstock/create.h>
#include <penstock/extend/driver.h>
#include <penstock/extend/json.h>
#include "driver/registry.h"
#include "support/cases.h"

namespace penstock::contract {

using bytes = std::vector<std::byte>;

struct driver_case {
  std::string name;                                   ///< name of the driver
  std::string path;                                   ///< path of the object
  std::function<bytes()> file;                        ///< the object's bytes in the form of its writer
  std::shared_ptr<const format_driver> added = {};    ///< null: the library's
  std::function<void(create_options&)> creates = {};  ///< options of an array that it can create; null: it cannot
  std::string inner = {};                             ///< path of an array in the object; empty: it is one
  std::vector<std::pair<std::string, std::function<bytes()>>> others = {};  ///< objects that it refers to
};
inline void PrintTo(const driver_case& which, std::ostream* out) { *out << which.name; }

/// Counts reads that begin an object; does not limit memory.
class counted_store final : public store {
 public:
  explicit counted_store(std::shared_ptr<store> under) : under_(std::move(under)) {}
  store_traits traits() const override { return under_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    for (const byte_read& one : reads)
      if (one.key == watched && !one.range.from_end && one.range.offset == 0 && one.range.length != 0) ++begun;
    under_->read(reads, sink, stop);
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    return under_->put(key, parts, condition);
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return under_->list(prefix, what, sink);
  }
  std::string uri() const override { return "test:"; }

  std::string watched;
  mutable std::atomic<int> begun{0};

 private:
  std::shared_ptr<store> under_;
};

class DriverContract : public testing::TestWithParam<driver_case> {
 protected:
  DriverContract() : store_(std::make_shared<counted_store>(make_memory_store())), file_(GetParam().file()) {
    context_options with;
    with.threads = 1;
    with.memory_limit_bytes = std::uint64_t{64} << 20;  // sizes in a damaged file must not take more
    if (GetParam().added) with.drivers = {GetParam().added};
    context_ = *context::make(with);
  }

  void SetUp() override {
    for (const auto& [key, content] : GetParam().others) put(key, content());
  }
  open_options opening() const {
    open_options out;
    out.context = context_;
    out.path = GetParam().path + (GetParam().inner.empty() ? "" : "/" + GetParam().inner);
    return out;
  }
  void put(const std::string& key, const bytes& content) {
    const part whole(content);
    ASSERT_TRUE(store_->put(key, {&whole, 1}, {}).ok());
  }
  void put(const bytes& content) { put(GetParam().path, content); }
  /// Opens the node and reads all of it, if it is small.
  result<> open_and_read() {
    PENSTOCK_ASSIGN(const array opened, open_array(store_, opening()));
    PENSTOCK_ASSIGN(const std::uint64_t count, element_count(opened.shape()));
    if (opened.type().variable_length() || count > 1'000'000) return {};
    bytes out(static_cast<std::size_t>(count * opened.type().item_bytes()));
    return opened.read(tensor_view::contiguous(out.data(), opened.type(), opened.shape()));
  }
  static bool blames_the_file(const error& why) {
    const errc code = why.code();
    return code == errc::corrupt_data || code == errc::unsupported || code == errc::not_found ||
           code == errc::resource_exhausted;
  }

  std::shared_ptr<counted_store> store_;
  std::shared_ptr<context> context_;
  bytes file_;
};

TEST_P(DriverContract, IsTheOnlyOneThatRecognisesItsFiles) {
  int found = 0;
  std::vector<const format_driver*> all(builtin_drivers().begin(), builtin_drivers().end());
  if (GetParam().added) all.push_back(GetParam().added.get());
  const auto begin = std::span(file_).first(std::min<std::size_t>(file_.size(), 4096));
  for (const format_driver* each : all) {
    EXPECT_FALSE(each->sniff({}, GetParam().path)) << each->name();
    if (!each->sniff(begin, GetParam().path)) continue;
    EXPECT_EQ(each->name(), GetParam().name);
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST_P(DriverContract, OpensWithOneReadOfTheFirstBytes) {
  put(file_);
  store_->watched = GetParam().path;
  const auto opened = open_array(store_, opening());
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  EXPECT_EQ(store_->begun, 1);
  EXPECT_FALSE(opened->format().empty());
  EXPECT_EQ(opened->fill_value().size(), opened->type().item_bytes());
  EXPECT_TRUE(json::parse(opened->attributes_json()).ok()) << opened->attributes_json();
  EXPECT_TRUE(json::parse(opened->codecs_json()).ok()) << opened->codecs_json();
  const auto read = open_and_read();
  EXPECT_TRUE(read.ok()) << read.error().to_string();
}

TEST_P(DriverContract, NamesTheFileInErrors) {
  bool failed = false;
  for (const std::size_t kept : {file_.size() / 2, file_.size() / 4, std::size_t{40}}) {
    put(bytes(file_.begin(), file_.begin() + static_cast<std::ptrdiff_t>(std::min(kept, file_.size()))));
    const auto done = open_and_read();
    if (done.ok()) continue;
    failed = true;
    EXPECT_NE(done.error().to_string().find(GetParam().path), std::string::npos) << done.error().to_string();
  }
  EXPECT_TRUE(failed);
}

TEST_P(DriverContract, ReportsTruncatedFiles) {
  for (std::size_t kept = 0; kept < file_.size();
       kept += kept < 600 ? test::all_cases() ? 1 : 4 : file_.size() / 50 + 1) {
    put(bytes(file_.begin(), file_.begin() + static_cast<std::ptrdiff_t>(kept)));
    const auto done = open_and_read();
    ASSERT_TRUE(done.ok() || blames_the_file(done.error())) << kept << ": " << done.error().to_string();
  }
}

TEST_P(DriverContract, ReportsDamagedFiles) {
  std::mt19937_64 random(7);
  const std::size_t head = std::min<std::size_t>(file_.size(), 1024);
  for (std::uint64_t i = 0; i < test::cases(600); ++i) {
    bytes damaged = file_;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips)
      damaged[random() % head] = static_cast<std::byte>(random() % 4 == 0 ? 0xff : random());
    put(damaged);
    const auto done = open_and_read();
    ASSERT_TRUE(done.ok() || blames_the_file(done.error())) << i << ": " << done.error().to_string();
  }
}

TEST_P(DriverContract, CreatesArraysThatItOpensOrRefuses) {
  create_options how;
  how.context = context_;
  how.format = GetParam().name;
  how.path = "new/" + GetParam().path;
  how.shape = {3, 4};
  how.type = *dtype::from_name("uint16");
  if (!GetParam().creates) {
    const auto refused = create_array(store_, how);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), errc::unsupported) << refused.error().to_string();
    return;
  }
  GetParam().creates(how);
  const auto made = create_array(store_, how);
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(made->shape(), how.shape);
  EXPECT_EQ(made->type(), how.type);
  EXPECT_EQ(create_array(store_, how).error().code(), errc::invalid_argument);  // the path exists
  how.overwrite = true;
  EXPECT_TRUE(create_array(store_, how).ok());
  bytes values(static_cast<std::size_t>(*element_count(how.shape)) * how.type.item_bytes(), std::byte{1});
  const auto view = tensor_view::contiguous(values.data(), how.type, how.shape);
  if (driver_for_new(*context_, how.format, how.path).value()->writes_once()) {
    const auto writer = begin_array(store_, how).value();
    ASSERT_TRUE(writer->write(extents(how.shape.size(), 0), view).ok());
    ASSERT_TRUE(writer->close().ok());
  } else {
    EXPECT_EQ(begin_array(store_, how).error().code(), errc::unsupported);
    ASSERT_TRUE(made->write(basic_selection(), view).ok());
  }
  open_options again = opening();
  again.path = how.path;
  const auto opened = open_array(store_, again);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  bytes read(values.size());
  ASSERT_TRUE(opened->read(tensor_view::contiguous(read.data(), how.type, how.shape)).ok());
  EXPECT_EQ(read, values);
  EXPECT_FALSE(opened->resize({5, 5}).ok());
}

}  // namespace penstock::contract
