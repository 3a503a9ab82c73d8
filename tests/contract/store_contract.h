#pragma once

// The stores that share one suite: what each has to offer to be a member of it.

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "store/store_fixture.h"
#include <penstock/store.h>

namespace penstock::test {

/// A store under test and the means to change what it holds behind its back.
struct store_subject {
  std::shared_ptr<penstock::store> store;
  std::function<void(const std::string& key, std::string_view text)> set;
  std::function<void(const std::string& key)> remove;
  bool writable = true;          ///< put and erase work
  bool listable = true;          ///< list works
  std::shared_ptr<void> keeper;  ///< what lives as long as the store (a folder, a server)
};

/// Lets the tests of a store that can be written to change it through itself.
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

}  // namespace penstock::test
