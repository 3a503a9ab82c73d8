#include "codec/bytes/crc32c.h"

#include <bit>
#include <cstring>

#include "codec/byte_codecs.h"
#include "codec/bytes/checksum_codec.h"
#include "codec/codec_members.h"
#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace penstock::inline v0 {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, lowest power in the highest bit

struct slicing_tables {
  std::uint32_t at[8][256];  // at[k][b]: the remainder of byte b followed by k zero bytes
};

constexpr slicing_tables make_slicing_tables() {
  slicing_tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t rest = b;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? kPolynomial : 0);
    tables.at[0][b] = rest;
  }
  for (int k = 1; k < 8; ++k) {
    for (std::uint32_t b = 0; b < 256; ++b) {
      const std::uint32_t before = tables.at[k - 1][b];
      tables.at[k][b] = before >> 8 ^ tables.at[0][before & 255];
    }
  }
  return tables;
}
constexpr slicing_tables kSlicing = make_slicing_tables();

std::uint64_t load_little_64(const std::byte* at) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

#if defined(__x86_64__)
#define PENSTOCK_CRC32C_INSTRUCTION __attribute__((target("sse4.2")))

PENSTOCK_CRC32C_INSTRUCTION inline std::uint64_t add_word(std::uint64_t rest, std::uint64_t word) noexcept {
  return _mm_crc32_u64(rest, word);
}
PENSTOCK_CRC32C_INSTRUCTION inline std::uint32_t add_byte(std::uint32_t rest, std::byte byte) noexcept {
  return _mm_crc32_u8(rest, static_cast<std::uint8_t>(byte));
}
bool has_instruction() noexcept { return __builtin_cpu_supports("sse4.2"); }

#elif defined(__aarch64__) && defined(__linux__)
#define PENSTOCK_CRC32C_INSTRUCTION

// ARMv8.0 leaves the instruction optional; all later versions have it. g++ and clang name its intrinsics differently.
inline std::uint64_t add_word(std::uint64_t rest, std::uint64_t word) noexcept {
  __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(rest) : "r"(word));
  return rest;
}
inline std::uint32_t add_byte(std::uint32_t rest, std::byte byte) noexcept {
  __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(rest) : "r"(static_cast<std::uint32_t>(byte)));
  return rest;
}
bool has_instruction() noexcept {
  static const bool has = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
  return has;
}

#endif

#if defined(PENSTOCK_CRC32C_INSTRUCTION)

// The instruction takes 3 cycles but can start in every cycle: three runs in parallel use it fully. Their remainders
// are joined by multiplying with x^(8 * run length), which four look-ups do.
constexpr std::size_t kLongRun = 2048, kShortRun = 128;

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t power = std::uint32_t{1} << 31; power != 0; power >>= 1) {
    if (a & power) product ^= b;
    b = b >> 1 ^ (b & 1 ? kPolynomial : 0);
  }
  return product;
}

struct shift_tables {
  std::uint32_t at[4][256];  // at[k][b]: b in byte k, followed by a run of zero bytes
};

constexpr shift_tables make_shift_tables(std::size_t run_bytes) {
  std::uint32_t shift = std::uint32_t{1} << 31;  // x^0
  std::uint32_t square = std::uint32_t{1} << 30;
  for (std::size_t n = 8 * run_bytes; n != 0; n >>= 1) {
    if (n & 1) shift = multiply(shift, square);
    square = multiply(square, square);
  }
  shift_tables tables{};
  for (std::uint32_t k = 0; k < 4; ++k) {
    for (std::uint32_t b = 0; b < 256; ++b) tables.at[k][b] = multiply(shift, b << (8 * k));
  }
  return tables;
}
constexpr shift_tables kLongShift = make_shift_tables(kLongRun);
constexpr shift_tables kShortShift = make_shift_tables(kShortRun);

std::uint32_t shift(const shift_tables& by, std::uint32_t rest) noexcept {
  return by.at[0][rest & 255] ^ by.at[1][rest >> 8 & 255] ^ by.at[2][rest >> 16 & 255] ^ by.at[3][rest >> 24];
}

PENSTOCK_CRC32C_INSTRUCTION std::uint32_t three_runs(const shift_tables& join, std::size_t run, const std::byte* at,
                                                     std::uint32_t rest) noexcept {
  std::uint64_t a = rest, b = 0, c = 0;
  for (const std::byte* const end = at + run; at != end; at += 8) {
    a = add_word(a, load_little_64(at));
    b = add_word(b, load_little_64(at + run));
    c = add_word(c, load_little_64(at + 2 * run));
  }
  const std::uint32_t first_two = shift(join, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
  return shift(join, first_two) ^ static_cast<std::uint32_t>(c);
}

PENSTOCK_CRC32C_INSTRUCTION std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes,
                                                                std::uint32_t so_far) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint32_t rest = ~so_far;
  for (; left >= 3 * kLongRun; at += 3 * kLongRun, left -= 3 * kLongRun) {
    rest = three_runs(kLongShift, kLongRun, at, rest);
  }
  for (; left >= 3 * kShortRun; at += 3 * kShortRun, left -= 3 * kShortRun) {
    rest = three_runs(kShortShift, kShortRun, at, rest);
  }
  std::uint64_t wide = rest;
  for (; left >= 8; at += 8, left -= 8) wide = add_word(wide, load_little_64(at));
  rest = static_cast<std::uint32_t>(wide);
  for (; left > 0; ++at, --left) rest = add_byte(rest, *at);
  return ~rest;
}

#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t so_far) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint32_t rest = ~so_far;
  for (; left >= 8; at += 8, left -= 8) {
    const std::uint64_t word = load_little_64(at) ^ rest;
    rest = 0;
    for (int k = 0; k < 8; ++k) rest ^= kSlicing.at[7 - k][word >> (8 * k) & 255];
  }
  for (; left > 0; ++at, --left) rest = rest >> 8 ^ kSlicing.at[0][(rest ^ static_cast<std::uint32_t>(*at)) & 255];
  return ~rest;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t so_far) noexcept {
#if defined(PENSTOCK_CRC32C_INSTRUCTION)
  if (has_instruction()) return crc32c_by_instruction(bytes, so_far);
#endif
  return crc32c_portable(bytes, so_far);
}

result<compiled_codec> make_crc32c_codec(const codec_config& config, const stage_type& input) {
  // Only numcodecs has a choice of position.
  checksum_place place = checksum_place::end;
  if (config.name == "crc32c") {
    PENSTOCK_TRY(codec_members::of(config, {}));
  } else {
    PENSTOCK_ASSIGN(place, checksum_place_of(config, checksum_place::end));
  }
  return make_checksum_codec("crc32c", crc32c, place, input);
}

}  // namespace penstock::inline v0
