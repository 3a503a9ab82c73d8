#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <libdeflate.h>
#include <penstock/result.h>
#include <zstd.h>
#include "base/ledger.h"
#include "codec/library_memory.h"
#include "codec/worker_scratch.h"

namespace penstock::inline v0 {

/// The compression libraries' own states, one of each kind, made at first use and kept for the worker's life.
///
/// Decoders' states are counted in the ledger. Encoders' are not, because their size depends on the level.
struct worker_scratch::contexts {
  explicit contexts(ledger* accounts) noexcept : memory_(accounts), accounts_(accounts) {}
  contexts(const contexts&) = delete;
  contexts& operator=(const contexts&) = delete;
  ~contexts();

  /// \error resource_exhausted  The ledger's limit or the system's memory; the same for the others.
  result<ZSTD_DCtx*> zstd_decoder() { return zstd_decoder_ ? zstd_decoder_ : make_zstd_decoder(); }
  result<ZSTD_CCtx*> zstd_encoder();
  result<libdeflate_decompressor*> gzip_decoder() { return gzip_decoder_ ? gzip_decoder_ : make_gzip_decoder(); }
  /// For the last level that was requested.
  result<libdeflate_compressor*> gzip_encoder(int level);

  /// For a chain within a codec, whose stages must not use the states of the outer chain.
  worker_scratch& nested() {
    if (nested_ == nullptr) nested_ = std::make_unique<worker_scratch>(accounts_);
    return *nested_;
  }

  void free_large(std::uint64_t most) noexcept {
    if (nested_ != nullptr) nested_->free_large(most);
  }

  /// For libraries whose decoders take their tables through functions of the caller.
  library_memory& memory() noexcept { return memory_; }

  /// For a library that allocates memory of its own for one call; may be null.
  ledger* accounts() const noexcept { return accounts_; }

  /// Of a cell of elements of variable length that is decoded: those that are needed, a bit for each in C order; the
  /// codec may leave the others empty. Empty: all.
  std::span<const std::uint64_t> wanted_items;
  std::vector<std::uint64_t> item_bits;  ///< memory for them
  bool wants_item(std::uint64_t i) const noexcept {
    return wanted_items.empty() || (wanted_items[static_cast<std::size_t>(i / 64)] >> i % 64 & 1) != 0;
  }

 private:
  result<ZSTD_DCtx*> make_zstd_decoder();
  result<libdeflate_decompressor*> make_gzip_decoder();

  library_memory memory_;
  std::unique_ptr<worker_scratch> nested_;
  ledger* accounts_;
  std::size_t taken_ = 0;
  ZSTD_DCtx* zstd_decoder_ = nullptr;
  ZSTD_CCtx* zstd_encoder_ = nullptr;
  libdeflate_decompressor* gzip_decoder_ = nullptr;
  libdeflate_compressor* gzip_encoder_ = nullptr;
  int gzip_level_ = -1;
};

}  // namespace penstock::inline v0
