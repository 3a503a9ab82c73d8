#pragma once

#include <penstock/store.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::inline v0 {

/// Several stores as one, for reading only. A key here is the name of a store, '/' and a key in that store.
class joined_store final : public store {
 public:
  /// Names are the URIs. Stores with one URI that are not the same storage get different names.
  static std::shared_ptr<const joined_store> make(const std::vector<std::shared_ptr<const store>>& stores,
                                                  std::string uri);

  store_traits traits() const override { return traits_; }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  std::string uri() const override { return uri_; }

  /// The name of the i-th of the joined stores, with '/' at its end.
  std::string prefix(std::size_t i) const { return *name_of_[i] + '/'; }

 private:
  joined_store() = default;
  const store* find(std::string_view key, std::string_view& own) const noexcept;

  std::vector<std::unique_ptr<const std::string>> names_;
  std::vector<std::shared_ptr<const store>> stores_;
  std::vector<const std::string*> name_of_;
  std::unordered_map<std::string_view, const store*> by_name_;  // views of names_
  store_traits traits_;
  std::string uri_;
};

}  // namespace penstock::inline v0
