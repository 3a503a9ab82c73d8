#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include <penstock/store.h>

namespace penstock::inline v0 {

/// A request for a cell of elements of variable length.
struct item_read {
  byte_read read;
  /// The elements that are needed, a bit for each in C order; others may be empty. Empty: all are needed. Borrowed
  /// until the completion.
  std::span<const std::uint64_t> items = {};
};

/// A store whose objects are cells of elements of variable length, of which it can leave out elements.
class item_store : public store {
 public:
  /// As `read`.
  virtual void read_items(std::span<const item_read> reads, completion_sink& sink, std::stop_token stop) const = 0;
};

}  // namespace penstock::inline v0
