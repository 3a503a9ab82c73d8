#pragma once

#include <penstock/store.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace penstock::inline v0 {

/// One object: ranges of objects of another store, one after the other. For reading only.
class chained_store final : public store {
 public:
  struct link {
    std::string key;  ///< in the other store
    std::uint64_t offset = 0, length = 0;
  };

  /// \pre The lengths have a sum below 2^64.
  chained_store(std::string key, std::shared_ptr<const store> from, std::vector<link> links);

  store_traits traits() const override;
  /// A read within one range becomes one read of the other store; a longer one becomes several, into one buffer.
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  std::string uri() const override { return from_->uri(); }
  std::uint64_t bytes() const noexcept { return begins_.back(); }

 private:
  class gathering;
  result<std::vector<byte_read>> split(const byte_read& wanted) const;

  const std::string key_;
  const std::shared_ptr<const store> from_;
  const std::vector<link> links_;
  std::vector<std::uint64_t> begins_;  // of each range in the object, then the object's length
};

}  // namespace penstock::inline v0
