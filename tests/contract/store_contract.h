#pragma once

// The stores that share one suite: the interface of its members.

#include <penstock/store.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "store/store_fixture.h"

namespace penstock::test {

/// A store under test and the means to change its content from outside.
struct store_subject {
  std::shared_ptr<penstock::store> store;
  std::function<void(const std::string& key, std::string_view text)> set;
  std::function<void(const std::string& key)> remove;
  bool writable = true;          ///< whether put and erase work
  bool listable = true;          ///< whether list works
  std::shared_ptr<void> keeper;  ///< objects that live as long as the store (a folder, a server)
};

/// Implements the changes of a writable store through the store itself.
inline store_subject writable_subject(std::shared_ptr<penstock::store> made, std::shared_ptr<void> keeper = nullptr) {
  penstock::store* const to = made.get();
  store_subject out;
  out.store = std::move(made);
  out.keeper = std::move(keeper);
  out.set = [to](const std::string& key, std::string_view text) {
    const bytes data = to_bytes(text);
    const part whole(data);
    const auto put = to->put(key, {&whole, 1}, {});
    ASSERT_TRUE(put.ok()) << put.error().to_string();
  };
  out.remove = [to](const std::string& key) {
    const auto erased = to->erase(key, {});
    ASSERT_TRUE(erased.ok()) << erased.error().to_string();
  };
  return out;
}

/// One line for each member of the suite.
struct store_case {
  std::string name;
  std::function<store_subject()> make;
};
inline void PrintTo(const store_case& which, std::ostream* out) { *out << which.name; }

/// The suite. Its tests are in several files; its members in store_contract_test.cc.
class StoreContract : public testing::TestWithParam<store_case> {
 protected:
  StoreContract() : subject_(GetParam().make()), store_(*subject_.store) {}

  void set(const std::string& key, std::string_view text) { subject_.set(key, text); }
  bool has_versions() const { return store_.traits().versions; }
  result<version> put(std::string_view key, std::string_view text, const write_condition& condition = {}) {
    const bytes data = to_bytes(text);
    const part whole(data);
    return store_.put(key, {&whole, 1}, condition);
  }
  std::map<std::string, std::uint64_t> list(std::string_view prefix, listing what, std::size_t most = 1000) {
    struct : key_sink {
      bool key(std::string_view key, std::uint64_t size) override {
        EXPECT_TRUE(found.emplace(key, size).second) << key << " was listed twice";
        return found.size() < most;
      }
      std::map<std::string, std::uint64_t> found;
      std::size_t most = 0;
    } sink;
    sink.most = most;
    const auto done = store_.list(prefix, what, sink);
    EXPECT_TRUE(done.ok()) << done.error().to_string();
    return sink.found;
  }

  store_subject subject_;
  store& store_;
};

constexpr std::string_view kText = "0123456789abcdef";

}  // namespace penstock::test
