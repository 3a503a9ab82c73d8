#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/ledger.h"

namespace penstock::inline v0 {

/// Memory for libraries that allocate a decoder's tables for every call: blocks are kept and reused.
///
/// It is counted in the ledger. Not thread-safe: a worker owns one.
class library_memory {
 public:
  explicit library_memory(ledger* accounts) noexcept : accounts_(accounts) {}
  library_memory(const library_memory&) = delete;
  ~library_memory();

  /// Uninitialised, aligned for any type; null if the ledger or the system has no more memory.
  void* take(std::size_t bytes) noexcept;
  /// `memory` may be null.
  void give(void* memory) noexcept;
  /// `give` as C libraries call it: `self` is a library_memory.
  static void give_to(void* self, void* memory) noexcept { static_cast<library_memory*>(self)->give(memory); }

 private:
  struct block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
    bool used = false;
  };
  void drop_unused() noexcept;

  ledger* accounts_;
  std::vector<block> blocks_;
};

}  // namespace penstock::inline v0
