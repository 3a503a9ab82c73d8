#include "codec/worker_scratch.h"

#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

// libdeflate does not report the size of its decompressor; 1.14's is 11.2 KiB.
constexpr std::size_t kGzipDecoderBytes = 12 * 1024;

error out_of_memory(const char* what) {
  return {errc::resource_exhausted, std::string("the system has no memory for ") + what};
}

}  // namespace

worker_scratch::worker_scratch(ledger* accounts)
    : stages_{buffer(accounts), buffer(accounts), buffer(accounts), buffer(accounts)},
      codec_memory_(accounts),
      accounts_(accounts),
      contexts_(std::make_unique<contexts>(accounts)) {}

worker_scratch::~worker_scratch() = default;

void worker_scratch::free_large(std::uint64_t most) noexcept {
  for (buffer& each : stages_)
    if (each.capacity() > most) each.free();
  if (codec_memory_.capacity() > most) codec_memory_.free();
  if (inner_ != nullptr) inner_->free_large(most);
  contexts_->free_large(most);
}

worker_scratch& worker_scratch::inner() {
  if (inner_ == nullptr) inner_ = std::make_unique<worker_scratch>(accounts_);
  inner_->arena = &items();
  return *inner_;
}

result<std::span<std::byte>> scratch_memory(worker_scratch& scratch, std::uint64_t bytes) {
  PENSTOCK_ASSIGN(const std::span<std::byte> room, scratch.codec_memory().reserve(bytes));
  return room.first(static_cast<std::size_t>(bytes));
}

error out_of_room(worker_scratch& scratch, std::string message) {
  scratch.out_of_room = true;
  return {errc::corrupt_data, std::move(message)};
}

worker_scratch::contexts::~contexts() {
  ZSTD_freeDCtx(zstd_decoder_);
  ZSTD_freeCCtx(zstd_encoder_);
  libdeflate_free_decompressor(gzip_decoder_);
  libdeflate_free_compressor(gzip_encoder_);
  if (accounts_ != nullptr && taken_ > 0) accounts_->give(memory_use::scratch, taken_);
}

result<ZSTD_DCtx*> worker_scratch::contexts::make_zstd_decoder() {
  ZSTD_DCtx* made = ZSTD_createDCtx();
  if (made == nullptr) return out_of_memory("a zstd decoder");
  const std::size_t bytes = ZSTD_sizeof_DCtx(made);
  if (accounts_ != nullptr) {
    if (auto taken = accounts_->take(memory_use::scratch, bytes); !taken.ok()) {
      ZSTD_freeDCtx(made);
      return std::move(taken).error();
    }
    taken_ += bytes;
  }
  return zstd_decoder_ = made;
}

result<ZSTD_CCtx*> worker_scratch::contexts::zstd_encoder() {
  if (zstd_encoder_ == nullptr) zstd_encoder_ = ZSTD_createCCtx();
  if (zstd_encoder_ == nullptr) return out_of_memory("a zstd encoder");
  return zstd_encoder_;
}

result<libdeflate_decompressor*> worker_scratch::contexts::make_gzip_decoder() {
  if (accounts_ != nullptr) PENSTOCK_TRY(accounts_->take(memory_use::scratch, kGzipDecoderBytes));
  libdeflate_decompressor* made = libdeflate_alloc_decompressor();
  if (made == nullptr) {
    if (accounts_ != nullptr) accounts_->give(memory_use::scratch, kGzipDecoderBytes);
    return out_of_memory("a gzip decoder");
  }
  if (accounts_ != nullptr) taken_ += kGzipDecoderBytes;
  return gzip_decoder_ = made;
}

result<libdeflate_compressor*> worker_scratch::contexts::gzip_encoder(int level) {
  if (gzip_encoder_ == nullptr || gzip_level_ != level) {
    libdeflate_free_compressor(gzip_encoder_);
    gzip_encoder_ = libdeflate_alloc_compressor(level);
    gzip_level_ = level;
  }
  if (gzip_encoder_ == nullptr) return out_of_memory("a gzip encoder");
  return gzip_encoder_;
}

}  // namespace penstock::inline v0
