#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/store.h>

namespace penstock::inline v0 {

/// One object whose bytes have another owner. Reads are lent the bytes, which are never copied and never change.
/// Thread-safe.
class span_store final : public store {
 public:
  /// \param owner  Keeps the bytes as long as the store; null: they outlive it.
  span_store(std::string key, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : key_(std::move(key)), bytes_(bytes), owner_(std::move(owner)) {}

  store_traits traits() const override;
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override;
  std::string uri() const override { return "bytes:"; }

 private:
  result<read_done> read_one(const byte_read& wanted) const;

  const std::string key_;
  const std::span<const std::byte> bytes_;
  const std::shared_ptr<const void> owner_;
};

}  // namespace penstock::inline v0
