// One 8 KiB chunk from a memory store through the public interface, compared with libzstd alone on the same bytes.

#include <benchmark/benchmark.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <penstock/penstock.h>

namespace {

constexpr std::int64_t kChunks = 64;
constexpr std::int64_t kElements = 2048;
constexpr std::size_t kChunkBytes = kElements * sizeof(float);

template <class T>
T check(penstock::result<T> outcome) {
  if (!outcome.ok()) {
    std::cerr << outcome.error().to_string() << '\n';
    std::exit(1);
  }
  return std::move(outcome).value();
}

const char kMetadata[] = R"({"zarr_format": 3, "node_type": "array", "shape": [131072], "data_type": "float32",
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2048]}},
  "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0.0,
  "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
             {"name": "zstd", "configuration": {"level": 0, "checksum": false}}], "attributes": {}})";

// `arange`, as in the scenario one_chunk_memory.
std::vector<std::vector<std::byte>> encoded_chunks() {
  std::vector<std::vector<std::byte>> chunks;
  std::vector<float> values(kElements);
  for (std::int64_t chunk = 0; chunk < kChunks; ++chunk) {
    std::iota(values.begin(), values.end(), static_cast<float>(chunk * kElements));
    std::vector<std::byte> encoded(ZSTD_compressBound(kChunkBytes));
    encoded.resize(ZSTD_compress(encoded.data(), encoded.size(), values.data(), kChunkBytes, 0));
    chunks.push_back(std::move(encoded));
  }
  return chunks;
}

penstock::array open_in_memory() {
  auto store = penstock::make_memory_store();
  const auto put = [&](const std::string& key, std::span<const std::byte> bytes) {
    const penstock::part parts[] = {bytes};
    check(store->put(key, parts, {}));
  };
  put("zarr.json", std::as_bytes(std::span(kMetadata, sizeof kMetadata - 1)));
  const auto chunks = encoded_chunks();
  for (std::size_t i = 0; i < chunks.size(); ++i) put("c/" + std::to_string(i), chunks[i]);
  return check(penstock::open_array(store));
}

void libzstd(benchmark::State& state) {
  const auto chunks = encoded_chunks();
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  std::vector<float> out(kElements);
  std::size_t next = 0;
  for (auto _ : state) {
    const auto& encoded = chunks[next++ % chunks.size()];
    if (ZSTD_decompressDCtx(context.get(), out.data(), kChunkBytes, encoded.data(), encoded.size()) != kChunkBytes) {
      state.SkipWithError("libzstd failed");
      break;
    }
    benchmark::ClobberMemory();
  }
}
BENCHMARK(libzstd);

void penstock_read(benchmark::State& state) {
  const penstock::array array = open_in_memory();
  std::vector<penstock::selection> selections;
  for (std::int64_t chunk = 0; chunk < kChunks; ++chunk) {
    selections.emplace_back(
        penstock::basic_selection{{penstock::slice{chunk * kElements, (chunk + 1) * kElements, std::nullopt}}});
  }
  std::vector<float> out(kElements);
  const auto view = penstock::tensor_view::contiguous(out.data(), array.type(), {kElements});
  std::size_t next = 0;
  for (auto _ : state) {
    const std::size_t chunk = next++ % selections.size();
    const auto read = array.read(selections[chunk], view);
    if (!read.ok() || out[0] != static_cast<float>(chunk * kElements)) {
      state.SkipWithError(read.ok() ? "wrong values" : read.error().to_string().c_str());
      break;
    }
    benchmark::ClobberMemory();
  }
}
BENCHMARK(penstock_read)->Name("penstock");

}  // namespace
