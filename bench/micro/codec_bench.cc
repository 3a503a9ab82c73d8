// The cost of a chain in addition to its library: chunks of 8 KiB and 1 MB through codec_chain, and the library alone.

#include <benchmark/benchmark.h>
#include <zstd.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "codec/bytes/crc32c.h"
#include "codec/codec_chain.h"

namespace {

using namespace penstock;

codec_config config(const char* name, json::object_t settings) { return {name, json(std::move(settings))}; }

// 16-bit samples of a slow wave with noise in the low bits: about 1.7 : 1, as from microscopes and reanalyses.
std::vector<std::byte> samples(std::size_t bytes) {
  std::mt19937 random(1);
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i + 1 < bytes; i += 2) {
    const std::uint32_t wave = static_cast<std::uint32_t>(i / 64 % 512);
    const std::uint32_t value = 4096 + (wave < 256 ? wave : 511 - wave) + static_cast<std::uint32_t>(random() & 15);
    made[i] = static_cast<std::byte>(value);
    made[i + 1] = static_cast<std::byte>(value >> 8);
  }
  return made;
}

struct chunk {
  codec_chain chain;
  worker_scratch scratch;
  std::vector<std::byte> encoded, out;

  chunk(std::vector<codec_config> byte_codecs, std::size_t bytes) : chain(make(std::move(byte_codecs), bytes)) {
    std::vector<std::byte> cell = samples(bytes);
    encoded.resize(chain.max_encoded_bytes());
    encoded.resize(
        chain.encode(tensor_view::contiguous(cell.data(), chain.type(), chain.cell()), encoded, scratch).value());
    out.resize(bytes);
  }

  bool decode(bool whole) {
    const std::uint64_t items = out.size() / 2;
    strided_box region;
    region.push_back({0, 1, items - 1});
    const decode_target target{out.data(), {2}, &region, whole};
    return chain.decode(encoded, target, scratch).ok();
  }

 private:
  static codec_chain make(std::vector<codec_config> codecs, std::size_t bytes) {
    codecs.insert(codecs.begin(), config("bytes", {{"endian", "little"}}));
    return codec_chain::compile(codecs, dtype(dtype_kind::unsigned_integer, 16), {bytes / 2}).value();
  }
};

void report(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

void zstd_alone(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  chunk subject({config("zstd", {{"level", std::int64_t{1}}})}, bytes);
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  for (auto _ : state) {
    const std::size_t made = ZSTD_decompressDCtx(context.get(), subject.out.data(), subject.out.size(),
                                                 subject.encoded.data(), subject.encoded.size());
    if (made != bytes) state.SkipWithError("zstd failed");
    benchmark::DoNotOptimize(subject.out.data());
  }
  report(state, bytes);
}
BENCHMARK(zstd_alone)->Arg(8 << 10)->Arg(1'000'000);

void decode(benchmark::State& state, std::vector<codec_config> codecs, bool whole) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  chunk subject(std::move(codecs), bytes);
  for (auto _ : state) {
    if (!subject.decode(whole)) state.SkipWithError("decode failed");
    benchmark::DoNotOptimize(subject.out.data());
  }
  report(state, bytes);
}

void zstd_direct(benchmark::State& state) { decode(state, {config("zstd", {{"level", std::int64_t{1}}})}, true); }
BENCHMARK(zstd_direct)->Arg(8 << 10)->Arg(1'000'000);

void zstd_scattered(benchmark::State& state) { decode(state, {config("zstd", {{"level", std::int64_t{1}}})}, false); }
BENCHMARK(zstd_scattered)->Arg(8 << 10)->Arg(1'000'000);

void gzip_direct(benchmark::State& state) { decode(state, {config("gzip", {{"level", std::int64_t{5}}})}, true); }
BENCHMARK(gzip_direct)->Arg(8 << 10)->Arg(1'000'000);

void blosc_direct(benchmark::State& state) {
  decode(state,
         {config("blosc", {{"cname", "lz4"},
                           {"clevel", std::int64_t{5}},
                           {"shuffle", "shuffle"},
                           {"typesize", std::int64_t{2}},
                           {"blocksize", std::int64_t{0}}})},
         true);
}
BENCHMARK(blosc_direct)->Arg(8 << 10)->Arg(1'000'000);

void uncompressed(benchmark::State& state) { decode(state, {}, true); }
BENCHMARK(uncompressed)->Arg(8 << 10)->Arg(1'000'000);

void checksum(benchmark::State& state) {
  const std::vector<std::byte> content = samples(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(crc32c(content));
  report(state, content.size());
}
BENCHMARK(checksum)->Arg(64)->Arg(8 << 10)->Arg(1'000'000);

void checksum_portable(benchmark::State& state) {
  const std::vector<std::byte> content = samples(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(crc32c_portable(content));
  report(state, content.size());
}
BENCHMARK(checksum_portable)->Arg(8 << 10);

}  // namespace
