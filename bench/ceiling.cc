// Measures this machine's ceilings for a set of chunks, with only one system call, one libzstd call or one copy per
// chunk. The demo and the benchmark compare Penstock with them. The program supports no array format and links no part
// of Penstock.
//
// It reads lines: first the chunks, then commands. Each command prints one line on stdout:
//
//   threads N                                 workers of the commands that use several (1)
//   file PATH                                 files are numbered from 0 in this order
//   chunk FILE OFFSET LENGTH DECODED          encoded bytes [OFFSET, OFFSET + LENGTH) of FILE decode to DECODED bytes;
//                                             decoded chunks follow each other in memory
//   pread | pread_in_place | decode | fresh | memcpy | chain | encode   -> NAME NANOSECONDS ENCODED_BYTES DECODED_BYTES
//   inflate                                   the same answer for zlib streams of shuffled 4-byte items: libdeflate,
//                                             then an unshuffle
//   inflate_plain                             the same for other zlib streams: libdeflate alone
//   tiles WIDTH HEIGHT SAMPLES ITEM PREDICTOR IMAGE_WIDTH IMAGE_HEIGHT
//                                             the chunks are these tiles of an image, in order
//   inflate_tiles | decode_tiles | lzw_tiles  the same answer: libdeflate, libzstd or LZW codes that were extracted
//                                             before, into a worker's scratch, then the predictor and the move to
//                                             bands of rows
//   lzw                                       the same for LZW without the last two
//   one REPEATS | range REPEATS | whole REPEATS  -> NAME NANOSECONDS_PER_CHUNK
//
// The exit status is 1, with a line on stderr, if the input or a file is not as described.

#include <emmintrin.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lzw.h"
#include "tiles.h"

namespace {

using nanoseconds = std::uint64_t;

nanoseconds now() {
  return static_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

[[noreturn]] void fail(const std::string& what) {
  std::cerr << "penstock_ceiling: " << what << '\n';
  std::exit(1);
}

// Memory that has been touched, on huge pages if the system grants them (NumPy requests them, too).
class warm_memory {
 public:
  warm_memory() = default;
  warm_memory(const warm_memory&) = delete;
  warm_memory& operator=(const warm_memory&) = delete;
  ~warm_memory() { release(); }

  // A second call with the same size keeps the memory, unless `touched` is false: then the pages are new.
  std::byte* get(std::size_t bytes, bool touched = true) {
    if (data_ != nullptr && (size_ != bytes || !touched)) release();
    if (data_ == nullptr) {
      void* memory =
          mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) fail("no memory for " + std::to_string(bytes) + " bytes");
      data_ = static_cast<std::byte*>(memory);
      size_ = bytes;
      madvise(memory, bytes, MADV_HUGEPAGE);
      if (touched) std::memset(memory, 1, bytes);
    }
    return data_;
  }
  void release() {
    if (data_ != nullptr) munmap(data_, std::max<std::size_t>(size_, 1));
    data_ = nullptr;
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

struct file {
  std::string path;
  int descriptor = -1;
};

struct chunk {
  std::size_t file = 0;
  off_t offset = 0;
  std::size_t length = 0;
  std::size_t decoded = 0;
  std::size_t encoded_at = 0;  // in the encoded memory
  std::size_t decoded_at = 0;  // in the decoded memory
};

using dctx = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;

class ceiling {
 public:
  void set_threads(unsigned threads) { threads_ = std::max(1U, threads); }

  void add_file(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail("cannot open '" + path + "'");
    files_.push_back({path, descriptor});
  }

  void set_tiles(const tiles& said) { tiles_ = said; }

  void add_chunk(chunk added) {
    if (added.file >= files_.size()) fail("a chunk names a file that was not given");
    added.encoded_at = encoded_bytes_;
    added.decoded_at = decoded_bytes_;
    encoded_bytes_ += added.length;
    decoded_bytes_ += added.decoded;
    largest_encoded_ = std::max(largest_encoded_, added.length);
    largest_decoded_ = std::max(largest_decoded_, added.decoded);
    chunks_.push_back(added);
  }

  std::string run(const std::string& command, std::size_t repeats) {
    if (chunks_.empty()) fail("no chunks");
    if (command == "one") return single(command, one(repeats));
    if (command == "range") return single(command, range(repeats));
    if (command == "whole") return single(command, whole(repeats));
    nanoseconds spent = 0;
    if (command == "pread") {
      spent = pread_all();
    } else if (command == "pread_in_place") {
      spent = pread_in_place(decoded_.get(decoded_bytes_));
    } else if (command == "decode") {
      spent = decode_all(decoded_.get(decoded_bytes_));
    } else if (command == "fresh") {
      spent = decode_all(decoded_.get(decoded_bytes_, false));
    } else if (command == "memcpy") {
      spent = memcpy_all();
    } else if (command == "chain") {
      spent = chain_all();
    } else if (command == "inflate") {
      spent = inflate_all(decoded_.get(decoded_bytes_), true);
    } else if (command == "inflate_plain") {
      spent = inflate_all(decoded_.get(decoded_bytes_), false);
    } else if (command == "lzw" || command == "lzw_tiles") {
      spent = lzw_all(command == "lzw_tiles");
    } else if (command == "inflate_tiles" || command == "decode_tiles") {
      spent = tiles_all(command == "inflate_tiles");
    } else if (command == "encode") {
      spent = encode_all();
    } else {
      fail("unknown command '" + command + "'");
    }
    return command + ' ' + std::to_string(spent) + ' ' + std::to_string(encoded_bytes_) + ' ' +
           std::to_string(decoded_bytes_);
  }

 private:
  // `prepare` runs per worker before the clock starts and returns the function that is called with every chunk of that
  // worker.
  nanoseconds on_all_chunks(const std::function<std::function<void(const chunk&)>()>& prepare) {
    std::atomic<std::size_t> next{0};
    std::atomic<unsigned> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads_; ++i) {
      workers.emplace_back([&] {
        const auto work = prepare();
        ready.fetch_add(1);
        while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
        for (std::size_t at = next++; at < chunks_.size(); at = next++) work(chunks_[at]);
      });
    }
    while (ready.load() < threads_) std::this_thread::yield();
    const nanoseconds begin = now();
    go.store(true, std::memory_order_release);
    for (auto& worker : workers) worker.join();
    return now() - begin;
  }

  nanoseconds pread_all() {
    return on_all_chunks([this] {
      auto buffer = std::make_shared<std::vector<std::byte>>(largest_encoded_);
      return [this, buffer](const chunk& which) { read(which, buffer->data()); };
    });
  }

  // For chunks that are not encoded: directly into the result, which is in no cache.
  nanoseconds pread_in_place(std::byte* into) {
    for (const chunk& each : chunks_)
      if (each.length != each.decoded) fail("a chunk is encoded");
    return on_all_chunks([=, this] { return [=, this](const chunk& which) { read(which, into + which.decoded_at); }; });
  }

  nanoseconds decode_all(std::byte* into) {
    const std::byte* from = load();
    return on_all_chunks([=] {
      auto context = std::shared_ptr<ZSTD_DCtx>(ZSTD_createDCtx(), ZSTD_freeDCtx);
      return
          [=](const chunk& which) { decode(context.get(), which, from + which.encoded_at, into + which.decoded_at); };
    });
  }

  nanoseconds inflate_all(std::byte* into, bool shuffled) {
    const std::byte* from = load();
    return on_all_chunks([=, this] {
      auto context =
          std::shared_ptr<libdeflate_decompressor>(libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
      auto scratch = std::make_shared<std::vector<std::byte>>(largest_decoded_);
      return [=](const chunk& which) {
        std::size_t made = 0;
        std::byte* const to = shuffled ? scratch->data() : into + which.decoded_at;
        if (libdeflate_zlib_decompress(context.get(), from + which.encoded_at, which.length, to, which.decoded,
                                       &made) != LIBDEFLATE_SUCCESS ||
            made != which.decoded) {
          fail("a chunk is not a zlib stream, or has another size than announced");
        }
        if (shuffled) unshuffle(scratch->data(), into + which.decoded_at, which.decoded / 4);
      };
    });
  }

  nanoseconds tiles_all(bool zlib) {
    for (const chunk& each : chunks_)
      if (each.decoded != tiles_.bytes()) fail("a chunk is not a tile");
    const std::byte* from = load();
    std::byte* const image = decoded_.get(std::max(decoded_bytes_, tiles_.image_bytes()));
    return on_all_chunks([=, this] {
      auto inflate =
          std::shared_ptr<libdeflate_decompressor>(libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
      auto context = std::shared_ptr<ZSTD_DCtx>(ZSTD_createDCtx(), ZSTD_freeDCtx);
      auto scratch = std::make_shared<std::vector<std::byte>>(largest_decoded_);
      auto row = std::make_shared<std::vector<std::byte>>();
      return [=, this](const chunk& which) {
        if (!zlib) {
          decode(context.get(), which, from + which.encoded_at, scratch->data());
        } else if (libdeflate_zlib_decompress(inflate.get(), from + which.encoded_at, which.length, scratch->data(),
                                              which.decoded, nullptr) != LIBDEFLATE_SUCCESS) {
          fail("a chunk is not a zlib stream, or has another size than announced");
        }
        tiles_.place(static_cast<std::size_t>(&which - chunks_.data()), scratch->data(), *row, image);
      };
    });
  }

  nanoseconds lzw_all(bool place) {
    const std::byte* from = load();
    std::vector<std::vector<std::uint16_t>> codes(chunks_.size());
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (place && chunks_[i].decoded != tiles_.bytes()) fail("a chunk is not a tile");
      if (!lzw::cut(from + chunks_[i].encoded_at, chunks_[i].length, codes[i])) fail("a chunk is not a stream of LZW");
    }
    std::byte* const image = place ? decoded_.get(std::max(decoded_bytes_, tiles_.image_bytes())) : nullptr;
    return on_all_chunks([=, this, &codes] {
      auto decoder = std::make_shared<lzw>();
      auto scratch = std::make_shared<std::vector<std::byte>>(largest_decoded_ + lzw::kSlack);
      auto row = std::make_shared<std::vector<std::byte>>();
      return [=, this, &codes](const chunk& which) {
        const auto at = static_cast<std::size_t>(&which - chunks_.data());
        if (!decoder->join(codes[at], scratch->data(), which.decoded)) fail("a chunk has another size than announced");
        if (place) tiles_.place(at, scratch->data(), *row, image);
      };
    });
  }

  // Converts four planes of bytes to items of four bytes, sixteen items at a time.
  static void unshuffle(const std::byte* from, std::byte* to, std::size_t items) {
    std::size_t i = 0;
    for (; i + 16 <= items; i += 16) {
      __m128i plane[4];
      for (std::size_t j = 0; j < 4; ++j)
        plane[j] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j * items + i));
      const __m128i low01 = _mm_unpacklo_epi8(plane[0], plane[1]), high01 = _mm_unpackhi_epi8(plane[0], plane[1]);
      const __m128i low23 = _mm_unpacklo_epi8(plane[2], plane[3]), high23 = _mm_unpackhi_epi8(plane[2], plane[3]);
      auto* const out = reinterpret_cast<__m128i*>(to + 4 * i);
      _mm_storeu_si128(out, _mm_unpacklo_epi16(low01, low23));
      _mm_storeu_si128(out + 1, _mm_unpackhi_epi16(low01, low23));
      _mm_storeu_si128(out + 2, _mm_unpacklo_epi16(high01, high23));
      _mm_storeu_si128(out + 3, _mm_unpackhi_epi16(high01, high23));
    }
    for (; i < items; ++i)
      for (std::size_t j = 0; j < 4; ++j) to[4 * i + j] = from[j * items + i];
  }

  // The cost of scattering: each decoded chunk is copied from a worker's scratch to its place.
  nanoseconds memcpy_all() {
    std::byte* into = decoded_.get(decoded_bytes_);
    return on_all_chunks([=, this] {
      auto scratch = std::make_shared<std::vector<std::byte>>(largest_decoded_, std::byte{2});
      return [=](const chunk& which) { std::memcpy(into + which.decoded_at, scratch->data(), which.decoded); };
    });
  }

  // pread into a worker's buffer, then libzstd from there: an engine without read-ahead cannot be faster.
  nanoseconds chain_all() {
    std::byte* into = decoded_.get(decoded_bytes_);
    return on_all_chunks([=, this] {
      auto context = std::shared_ptr<ZSTD_DCtx>(ZSTD_createDCtx(), ZSTD_freeDCtx);
      auto buffer = std::make_shared<std::vector<std::byte>>(largest_encoded_);
      return [=, this](const chunk& which) {
        read(which, buffer->data());
        decode(context.get(), which, buffer->data(), into + which.decoded_at);
      };
    });
  }

  // libzstd at level 0 from warm memory into a worker's buffer: the least time for a writer of such chunks.
  nanoseconds encode_all() {
    std::byte* from = decoded_.get(decoded_bytes_);
    decode_all(from);
    return on_all_chunks([=, this] {
      auto context = std::shared_ptr<ZSTD_CCtx>(ZSTD_createCCtx(), ZSTD_freeCCtx);
      auto buffer = std::make_shared<std::vector<std::byte>>(ZSTD_compressBound(largest_decoded_));
      return [=](const chunk& which) {
        if (ZSTD_isError(ZSTD_compressCCtx(context.get(), buffer->data(), buffer->size(), from + which.decoded_at,
                                           which.decoded, 0)))
          fail("libzstd cannot encode a chunk");
      };
    });
  }

  nanoseconds one(std::size_t repeats) {
    const std::byte* from = load();
    std::byte* into = decoded_.get(decoded_bytes_);
    const dctx context(ZSTD_createDCtx(), ZSTD_freeDCtx);
    return per_chunk(repeats, [&](const chunk& which) {
      decode(context.get(), which, from + which.encoded_at, into + which.decoded_at);
    });
  }

  // The system calls of a sharded read from an open file: a check that it is the same file, then the bytes.
  nanoseconds range(std::size_t repeats) {
    std::vector<std::byte> buffer(largest_encoded_);
    return per_chunk(repeats, [&](const chunk& which) {
      struct stat status = {};
      if (stat(files_[which.file].path.c_str(), &status) != 0) fail("cannot stat '" + files_[which.file].path + "'");
      read(which, buffer.data());
    });
  }

  // The system calls for a chunk that is a separate file.
  nanoseconds whole(std::size_t repeats) {
    std::vector<std::byte> buffer(largest_encoded_);
    return per_chunk(repeats, [&](const chunk& which) {
      const std::string& path = files_[which.file].path;
      struct stat status = {};
      const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (descriptor < 0 || fstat(descriptor, &status) != 0) fail("cannot open '" + path + "'");
      if (pread(descriptor, buffer.data(), which.length, which.offset) != static_cast<ssize_t>(which.length)) {
        fail("'" + path + "' is shorter than its chunks");
      }
      close(descriptor);
    });
  }

  template <typename Work>
  nanoseconds per_chunk(std::size_t repeats, const Work& work) {
    for (const chunk& which : chunks_) work(which);
    const nanoseconds begin = now();
    for (std::size_t i = 0; i < repeats; ++i) work(chunks_[i % chunks_.size()]);
    return (now() - begin) / std::max<std::size_t>(repeats, 1);
  }

  static std::string single(const std::string& name, nanoseconds spent) { return name + ' ' + std::to_string(spent); }

  const std::byte* load() {
    std::byte* into = encoded_.get(encoded_bytes_);
    if (!loaded_) {
      for (const chunk& which : chunks_) read(which, into + which.encoded_at);
      loaded_ = true;
    }
    return into;
  }

  void read(const chunk& which, std::byte* into) const {
    std::size_t done = 0;
    while (done < which.length) {
      const ssize_t got = pread(files_[which.file].descriptor, into + done, which.length - done,
                                which.offset + static_cast<off_t>(done));
      if (got <= 0) fail("'" + files_[which.file].path + "' is shorter than its chunks");
      done += static_cast<std::size_t>(got);
    }
  }

  static void decode(ZSTD_DCtx* context, const chunk& which, const std::byte* from, std::byte* into) {
    if (ZSTD_decompressDCtx(context, into, which.decoded, from, which.length) != which.decoded) {
      fail("a chunk is not zstd, or has another size than announced");
    }
  }

  unsigned threads_ = 1;
  std::vector<file> files_;
  std::vector<chunk> chunks_;
  tiles tiles_;
  std::size_t encoded_bytes_ = 0, decoded_bytes_ = 0, largest_encoded_ = 0, largest_decoded_ = 0;
  warm_memory encoded_, decoded_;
  bool loaded_ = false;
};

}  // namespace

int main() {
  ceiling measured;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb.empty()) continue;
    if (verb == "threads") {
      unsigned threads = 0;
      if (!(words >> threads)) fail("threads N");
      measured.set_threads(threads);
    } else if (verb == "file") {
      std::string path;
      std::getline(words >> std::ws, path);
      measured.add_file(path);
    } else if (verb == "chunk") {
      chunk added;
      if (!(words >> added.file >> added.offset >> added.length >> added.decoded))
        fail("chunk FILE OFFSET LENGTH DECODED");
      measured.add_chunk(added);
    } else if (verb == "tiles") {
      tiles said;
      if (!(words >> said.width >> said.height >> said.samples >> said.item >> said.predictor >> said.image_width >>
            said.image_height))
        fail("tiles WIDTH HEIGHT SAMPLES ITEM PREDICTOR IMAGE_WIDTH IMAGE_HEIGHT");
      measured.set_tiles(said);
    } else {
      std::size_t repeats = 1;
      words >> repeats;
      std::cout << measured.run(verb, std::max<std::size_t>(repeats, 1)) << std::endl;
    }
  }
  return 0;
}
