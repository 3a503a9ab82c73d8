#pragma once

#include <penstock/store.h>

#include <memory>
#include <utility>

namespace penstock::inline v0 {

/// Reads from another store and refuses every write with `read_only`.
class read_only_store final : public store {
 public:
  explicit read_only_store(std::shared_ptr<const store> from) noexcept : from_(std::move(from)) {}

  store_traits traits() const override {
    store_traits traits = from_->traits();
    traits.writable = false;
    return traits;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    from_->read(reads, sink, std::move(stop));
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return from_->list(prefix, what, sink);
  }
  std::string uri() const override { return from_->uri(); }

 private:
  std::shared_ptr<const store> from_;
};

}  // namespace penstock::inline v0
