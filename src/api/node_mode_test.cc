#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <penstock/penstock.h>
#include "engine/blocking_read.h"

namespace penstock::test {
namespace {

class all_objects final : public key_sink {
 public:
  bool key(std::string_view key, std::uint64_t) override {
    keys.emplace_back(key);
    return true;
  }
  std::vector<std::string> keys;
};

std::map<std::string, std::string> contents(const store& of) {
  all_objects found;
  EXPECT_TRUE(of.list("", listing::objects, found).ok());
  std::map<std::string, std::string> out;
  for (const std::string& key : found.keys) {
    const auto read = read_and_wait(of, key, {}, 1 << 20);
    EXPECT_TRUE(read.ok()) << key;
    if (read.ok()) out[key].assign(reinterpret_cast<const char*>(read->bytes.data()), read->bytes.size());
  }
  return out;
}

/// A tree with a group `g` and an array `g/a`, 4 x 3 of int32.
void fill(const std::shared_ptr<store>& to, int zarr_format) {
  create_group_options group;
  group.path = "g";
  group.zarr_format = zarr_format;
  ASSERT_TRUE(create_group(to, group).ok());
  create_options made;
  made.path = "g/a";
  made.zarr_format = zarr_format;
  made.shape = {4, 3};
  made.chunks = extents{2, 3};
  made.type = dtype(dtype_kind::signed_integer, 32);
  ASSERT_TRUE(create_array(to, made).ok());
}

struct change {
  const char* name;
  std::function<result<>(const group&, const array&)> run;
};

template <class T>
result<> done(result<T> from) {
  if (!from.ok()) return std::move(from).error();
  return {};
}

std::vector<change> changes() {
  static std::vector<std::int32_t> values(12, 7);
  const auto view = [](const array& a, extents shape) {
    return tensor_view::contiguous(values.data(), a.type(), shape);
  };
  return {
      {"write", [=](const group&, const array& a) { return a.write(basic_selection(), view(a, {4, 3})); }},
      {"write of nothing",
       [=](const group&, const array& a) {
         basic_selection none;
         none.items.emplace_back(slice{0, 0, {}});
         return a.write(none, view(a, {0, 3}));
       }},
      {"resize", [](const group&, const array& a) { return done(a.resize({2, 3})); }},
      {"append", [=](const group&, const array& a) { return done(a.append(view(a, {4, 3}), 0)); }},
      {"set_attributes", [](const group&, const array& a) { return done(a.set_attributes(R"({"x": 1})")); }},
      {"update_attributes", [](const group&, const array& a) { return done(a.update_attributes(R"({"x": 1})")); }},
      {"set_attributes of the group",
       [](const group& g, const array&) { return done(g.set_attributes(R"({"x": 1})")); }},
      {"update_attributes of the group",
       [](const group& g, const array&) { return done(g.update_attributes(R"({"x": 1})")); }},
      {"create_group",
       [](const group& g, const array&) {
         create_group_options made;
         made.path = "new";
         return done(create_group(g, made));
       }},
      {"create_array",
       [](const group& g, const array&) {
         create_options made;
         made.path = "new";
         made.shape = {2};
         made.type = dtype(dtype_kind::signed_integer, 8);
         return done(create_array(g, made));
       }},
      {"create_array in place of another",
       [](const group& g, const array&) {
         create_options made;
         made.path = "a";
         made.overwrite = true;
         made.shape = {2};
         made.type = dtype(dtype_kind::signed_integer, 8);
         return done(create_array(g, made));
       }},
      {"erase", [](const group& g, const array&) { return erase(g, "a"); }},
      {"erase of what is absent", [](const group& g, const array&) { return erase(g, "nothing"); }},
  };
}

/// Every way to obtain the array and its group.
struct way {
  const char* name;
  std::function<std::pair<group, array>(const std::shared_ptr<store>&, open_mode)> open;
};

std::vector<way> ways() {
  const auto options = [](open_mode mode, const char* path) {
    open_options out;
    out.mode = mode;
    out.path = path;
    return out;
  };
  const auto from = [](const std::shared_ptr<store>& s) { return std::shared_ptr<const store>(s); };
  return {
      {"directly",
       [=](const auto& s, open_mode mode) {
         return std::pair(open_group(s, options(mode, "g")).value(), open_array(from(s), options(mode, "g/a")).value());
       }},
      {"through the root's children",
       [=](const auto& s, open_mode mode) {
         const group root = std::get<group>(open(from(s), options(mode, "")).value());
         return std::pair(std::get<group>(open(root, "g").value()), std::get<array>(open(root, "g/a").value()));
       }},
      {"through members",
       [=](const auto& s, open_mode mode) {
         const group root = open_group(s, options(mode, "")).value();
         const group inner = std::get<group>(open_members(root).value().at(0).second);
         return std::pair(inner, std::get<array>(open_members(inner).value().at(0).second));
       }},
  };
}

TEST(OpenMode, ReadRefusesEveryChangeAndReadWriteMakesIt) {
  for (const int zarr_format : {2, 3}) {
    for (const bool consolidated : {false, true}) {
      for (const way& each : ways()) {
        for (const change& one : changes()) {
          SCOPED_TRACE(std::to_string(zarr_format) + (consolidated ? " consolidated, " : ", ") + one.name + " " +
                       each.name);
          const auto storage = make_memory_store();
          ASSERT_NO_FATAL_FAILURE(fill(storage, zarr_format));
          if (consolidated) {
            ASSERT_TRUE(consolidate_metadata(storage).ok());
          }
          const auto before = contents(*storage);
          {
            const auto [g, a] = each.open(storage, open_mode::read);
            EXPECT_TRUE(g.read_only());
            EXPECT_TRUE(a.read_only());
            const auto refused = one.run(g, a);
            ASSERT_FALSE(refused.ok());
            EXPECT_EQ(refused.error().code(), errc::read_only) << refused.error().to_string();
            EXPECT_NE(refused.error().message().find("mode \"r+\""), std::string::npos);
            EXPECT_EQ(contents(*storage), before);
          }
          {
            const auto [g, a] = each.open(make_read_only(storage), open_mode::existing);
            EXPECT_TRUE(g.read_only());
            EXPECT_TRUE(a.read_only());
            EXPECT_EQ(one.run(g, a).error().code(), errc::read_only);
            EXPECT_EQ(contents(*storage), before);
          }
          for (const open_mode mode : {open_mode::existing, open_mode::read_write, open_mode::append}) {
            const auto copy = make_memory_store();
            for (const auto& [key, value] : before) {
              const part bytes = std::as_bytes(std::span(value));
              ASSERT_TRUE(copy->put(key, {&bytes, 1}, {}).ok());
            }
            const auto [g, a] = each.open(copy, mode);
            EXPECT_FALSE(g.read_only());
            EXPECT_FALSE(a.read_only());
            const auto made = one.run(g, a);
            if (std::string(one.name) == "erase of what is absent") {
              EXPECT_EQ(made.error().code(), errc::not_found);
            } else {
              EXPECT_TRUE(made.ok()) << made.error().to_string();
            }
          }
        }
      }
    }
  }
}

TEST(OpenMode, ModesThatWriteFailAtOnceInAReadOnlyStore) {
  const auto storage = make_memory_store();
  ASSERT_NO_FATAL_FAILURE(fill(storage, 3));
  const auto only_read = make_read_only(storage);
  for (const open_mode mode : {open_mode::read_write, open_mode::append}) {
    open_options options;
    options.mode = mode;
    options.path = "g";
    EXPECT_EQ(open_group(only_read, options).error().code(), errc::read_only);
    options.path = "g/a";
    const auto a = open_array(std::shared_ptr<const store>(only_read), options);
    ASSERT_FALSE(a.ok());
    EXPECT_EQ(a.error().code(), errc::read_only) << a.error().to_string();
  }
}

TEST(OpenMode, OpenCreatesNothing) {
  const auto storage = make_memory_store();
  for (const open_mode mode : {open_mode::create, open_mode::replace}) {
    open_options options;
    options.mode = mode;
    const auto found = open(std::shared_ptr<const store>(storage), options);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code(), errc::invalid_argument);
    EXPECT_NE(found.error().message().find("open_group"), std::string::npos);
  }
  open_options append;
  append.mode = open_mode::append;
  EXPECT_EQ(open(std::shared_ptr<const store>(storage), append).error().code(), errc::not_found);
  EXPECT_TRUE(contents(*storage).empty());
}

TEST(OpenMode, OpenGroupCreatesByMode) {
  const auto storage = make_memory_store();
  open_options options;
  options.path = "g";
  for (const open_mode mode : {open_mode::existing, open_mode::read, open_mode::read_write}) {
    options.mode = mode;
    EXPECT_EQ(open_group(storage, options).error().code(), errc::not_found);
  }
  options.mode = open_mode::append;
  const group made = open_group(storage, options).value();
  ASSERT_TRUE(made.set_attributes(R"({"x": 1})").ok());
  EXPECT_EQ(open_group(storage, options).value().attributes_json(), R"({"x":1})");
  options.mode = open_mode::create;
  EXPECT_EQ(open_group(storage, options).error().code(), errc::invalid_argument);
  options.mode = open_mode::replace;
  EXPECT_EQ(open_group(storage, options).value().attributes_json(), "{}");
}

TEST(OpenMode, AFolderWithoutPermissionIsNotWritable) {
  namespace fs = std::filesystem;
  if (::geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  const fs::path folder = fs::temp_directory_path() / ("penstock-mode-" + std::to_string(::getpid()));
  const auto storage = open_file_store(folder.string());
  ASSERT_NO_FATAL_FAILURE(fill(storage, 3));
  fs::permissions(folder / "g/a", fs::perms::owner_read | fs::perms::owner_exec);
  open_options options;
  options.path = "g/a";
  EXPECT_TRUE(open_array(std::shared_ptr<const store>(storage), options).value().read_only());
  options.mode = open_mode::read_write;
  const auto refused = open_array(std::shared_ptr<const store>(storage), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), errc::permission_denied);
  EXPECT_NE(refused.error().message().find("g/a"), std::string::npos) << refused.error().to_string();
  fs::permissions(folder / "g/a", fs::perms::owner_all);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace penstock::test
