// Windows of tokens: all lanes find the tokens that one lane steps over, and streams of every kind of token decode.

#include "cuda/decode/lz_parse.h"

#include <lz4.h>

#include <cstdio>

#include "cuda/decode/decode_fixture.h"
#include "cuda/encode/encode_fixture.h"
#include "support/cases.h"

namespace penstock::inline v0::device {
namespace {

constexpr lz_format kFormats[] = {lz_format::lz4_block, lz_format::snappy, lz_format::blosclz, lz_format::packbits};

// Random bytes of several kinds, not written by an encoder.
std::vector<std::uint8_t> any_bytes(int kind, std::size_t size, std::mt19937& random) {
  std::vector<std::uint8_t> out(size);
  for (auto& byte : out) {
    const auto any = static_cast<std::uint8_t>(random());
    switch (kind) {
      case 0:
        byte = any;
        break;
      case 1:  // short tokens
        byte = any & 0x33;
        break;
      case 2:  // lengths of several bytes
        byte = any | (random() % 2 != 0 ? 0x0f : 0xf0);
        break;
      case 3:  // chains of bytes of 255
        byte = random() % 20 == 0 ? any & 0x13 : 255;
        break;
      case 4:
        byte = random() % 40 == 0 ? any : 0;
        break;
      default:
        byte = kind == 5 ? 255 : 0xf4;
    }
  }
  // Occasionally a long chain.
  if (size > 600 && kind < 2 && random() % 2 != 0)
    std::fill_n(out.begin() + static_cast<long>(random() % (size - 500)), random() % 500, std::uint8_t{255});
  return out;
}

TEST(LzParse, FindsTheTokensThatOneLaneStepsOver) {
  std::mt19937 random(7);
  const warp lanes;
  alignas(16) std::uint8_t room[6016];
  for (std::uint64_t round = test::cases(1500); round-- > 0;) {
    const lz_format format = kFormats[round % 4];
    const std::size_t size = random() % 3 == 0 ? 1 + random() % 200 : 1 + random() % 6000;
    const auto source = any_bytes(static_cast<int>(random() % 7), size, random);
    std::uint8_t* const begin = room + random() % 16;
    std::copy(source.begin(), source.end(), begin);
    const byte_view view{begin, static_cast<std::uint32_t>(size)};
    const auto at = static_cast<std::uint32_t>(random() % std::min<std::size_t>(size, 3000));
    for (const lane_order order : {lane_order::forward, lane_order::backward, lane_order::strided}) {
      host_lane_order = order;
      lz_window_shared shared;
      std::memset(&shared, 0xee, sizeof shared);
      const lz_window window = load_window(view, at, shared, lanes);
      ASSERT_EQ(window.at + window.from, at);
      ASSERT_LE(window.view.size, kWindowBytes);
      for (std::uint32_t i = window.from; i < window.view.size; ++i) ASSERT_EQ(shared.bytes[i], begin[window.at + i]);
      std::vector<std::uint16_t> expected;
      for (std::uint32_t place = window.from; place < window.view.size;) {
        const std::uint32_t end = token_at(format, window.view, place).end;
        if (end == 0) break;
        expected.push_back(static_cast<std::uint16_t>(place));
        place = end;
      }
      std::uint16_t stepped[kMostStepped];
      const std::uint32_t steps = step_over_tokens(format, window, stepped);
      ASSERT_EQ(std::vector<std::uint16_t>(stepped, stepped + steps),
                std::vector<std::uint16_t>(expected.begin(),
                                           expected.begin() + std::min<std::ptrdiff_t>(steps, std::ssize(expected))))
          << "round " << round << " size " << size << " at " << at;
      ASSERT_LE(steps, kMostStepped);
      ASSERT_TRUE(steps == expected.size() || steps + 4 > kMostStepped);
      parse_window(format, window, shared, lanes);
      host_lane_order = lane_order::forward;
      ASSERT_EQ(std::vector<std::uint16_t>(shared.starts, shared.starts + shared.count), expected)
          << "round " << round << " size " << size << " at " << at;
    }
  }
}

// The composition of a stream.
struct token_lengths {
  const char* name;
  std::uint32_t most_literals, most_match, most_offset;
  std::uint32_t rarely;  // one token among this many is a hundred times longer; 0: none
};

constexpr token_lengths kLengths[] = {
    {"tiny tokens", 2, 6, 8, 0},         {"overlapping offsets", 1, 40, 8, 0},   {"short tokens", 14, 18, 3000, 0},
    {"mixed tokens", 40, 60, 60'000, 0}, {"some long tokens", 4, 20, 500, 40},   {"long literals", 1500, 10, 5000, 0},
    {"long matches", 3, 5000, 20, 0},    {"tokens over windows", 30, 40, 99, 7},
};

void append_lz4_length(bytes& out, std::uint32_t more) {
  for (; more >= 255; more -= 255) out.push_back(std::byte{255});
  out.push_back(static_cast<std::byte>(more));
}

void append_number(bytes& out, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void append_lz4_token(bytes& out, std::span<const std::byte> literals, std::uint32_t match, std::uint32_t offset) {
  const auto count = static_cast<std::uint32_t>(literals.size()), length = match == 0 ? 0 : match - 4;
  out.push_back(static_cast<std::byte>(std::min(count, 15u) << 4 | std::min(length, 15u)));
  if (count >= 15) append_lz4_length(out, count - 15);
  out.insert(out.end(), literals.begin(), literals.end());
  if (match == 0) return;
  append_number(out, offset, 2);
  if (length >= 15) append_lz4_length(out, length - 15);
}

void append_snappy_tokens(bytes& out, std::span<const std::byte> literals, std::uint32_t match, std::uint32_t offset) {
  if (const auto count = static_cast<std::uint32_t>(literals.size()); count != 0) {
    const int more = count <= 60 ? 0 : count <= 256 ? 1 : 2;
    out.push_back(static_cast<std::byte>((more == 0 ? count - 1 : 59 + static_cast<std::uint32_t>(more)) << 2));
    append_number(out, count - 1, more);
    out.insert(out.end(), literals.begin(), literals.end());
  }
  while (match != 0) {
    const std::uint32_t length = match > 67 ? 64 : match > 64 ? 60 : match;
    if (length >= 4 && length <= 11 && offset < 2048) {
      out.push_back(static_cast<std::byte>(1 | (length - 4) << 2 | offset >> 8 << 5));
      append_number(out, offset, 1);
    } else {
      const int wide = offset % 7 == 0 ? 4 : 2;
      out.push_back(static_cast<std::byte>((wide == 4 ? 3u : 2u) | (length - 1) << 2));
      append_number(out, offset, wide);
    }
    match -= length;
  }
}

// A stream with about `size` bytes of content, and the content.
std::pair<bytes, bytes> stream_of(bool snappy, const token_lengths& lengths, std::size_t size, std::mt19937& random) {
  bytes encoded, content;
  const auto literals = [&](std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) content.push_back(static_cast<std::byte>(random()));
    return std::span(content).last(count);
  };
  while (content.size() < size) {
    const std::uint32_t times = lengths.rarely != 0 && random() % lengths.rarely == 0 ? 100 : 1;
    std::uint32_t count = static_cast<std::uint32_t>(random()) % (times * lengths.most_literals + 1);
    if (content.empty() && count == 0) count = 1;
    const std::uint32_t match = 4 + static_cast<std::uint32_t>(random()) % (times * lengths.most_match);
    const auto made = literals(count);
    const bytes copied(made.begin(), made.end());
    const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(content.size(), lengths.most_offset));
    const std::uint32_t offset = 1 + static_cast<std::uint32_t>(random()) % most;
    (snappy ? append_snappy_tokens : append_lz4_token)(encoded, copied, match, offset);
    for (std::uint32_t i = 0; i < match; ++i) content.push_back(content[content.size() - offset]);
  }
  const auto made = literals(12);
  const bytes last(made.begin(), made.end());
  (snappy ? append_snappy_tokens : append_lz4_token)(encoded, last, 0, 0);
  if (snappy) {
    bytes length;
    for (std::size_t left = content.size();; left >>= 7) {
      length.push_back(static_cast<std::byte>((left & 127) | (left > 127 ? 128 : 0)));
      if (left <= 127) break;
    }
    encoded.insert(encoded.begin(), length.begin(), length.end());
  }
  return {encoded, content};
}

const device_step kLz4[] = {{step_kind::lz4_block}}, kSnappy[] = {{step_kind::snappy}};

TEST(LzParse, DecodesStreamsOfEveryKindOfToken) {
  std::mt19937 random(11);
  for (const token_lengths& lengths : kLengths)
    for (const bool snappy : {false, true})
      for (const std::size_t size : {40u, 700u, 2'000u, 20'000u}) {
        const auto [encoded, content] = stream_of(snappy, lengths, size, random);
        expect_decodes(snappy ? std::span(kSnappy) : std::span(kLz4), encoded, content,
                       std::string(snappy ? "snappy, " : "lz4, ") + lengths.name + " of " + std::to_string(size));
      }
}

TEST(LzParse, RefusesEveryTruncation) {
  std::mt19937 random(13);
  for (const token_lengths& lengths : {kLengths[0], kLengths[2], kLengths[4]})
    for (const bool snappy : {false, true}) {
      const auto [encoded, content] = stream_of(snappy, lengths, 600, random);
      bytes out(content.size());
      const auto steps = snappy ? std::span(kSnappy) : std::span(kLz4);
      ASSERT_TRUE(decode_on_host(steps, encoded, out).ok());
      for (std::size_t size = 0; size < encoded.size(); ++size) {
        const bytes cut(encoded.begin(), encoded.begin() + static_cast<long>(size));
        ASSERT_FALSE(decode_on_host(steps, cut, out).ok()) << lengths.name << " of " << size;
      }
    }
}

// Damage in the middle of windows: accepted streams decode to the library's bytes.
TEST(LzParse, DecodesDamagedTokensAsTheLibraryDoes) {
  std::mt19937 random(17);
  int accepted = 0;
  for (std::uint64_t round = test::cases(300); round-- > 0;) {
    const token_lengths& lengths = kLengths[static_cast<std::size_t>(round) % std::size(kLengths)];
    auto [encoded, content] = stream_of(false, lengths, 3'000, random);
    for (std::uint32_t i = 0; i <= random() % 2; ++i)
      encoded[random() % encoded.size()] ^= static_cast<std::byte>(1u << random() % 8);
    bytes ours(content.size()), theirs(content.size());
    const bool good = decode_on_host(kLz4, encoded, ours).ok();
    const int made =
        LZ4_decompress_safe(reinterpret_cast<const char*>(encoded.data()), reinterpret_cast<char*>(theirs.data()),
                            static_cast<int>(encoded.size()), static_cast<int>(theirs.size()));
    if (!good) continue;
    ++accepted;
    ASSERT_EQ(made, static_cast<int>(theirs.size())) << lengths.name << " round " << round;
    ASSERT_EQ(ours, theirs) << lengths.name << " round " << round;
  }
  EXPECT_GT(accepted, 30);
}

// A stream of an array, by a greedy search for matches of four bytes.
bytes stream_of(lz_format format, const bytes& content) {
  bytes out;
  std::vector<std::size_t> seen(1 << 14, content.size());
  const auto word_at = [&](std::size_t at) {
    std::uint32_t word;
    std::memcpy(&word, content.data() + at, 4);
    return word;
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at + 16 < content.size();) {
    std::size_t& slot = seen[(word_at(at) * 2654435761u) >> 18];
    const std::size_t from = slot;
    slot = at;
    if (from == content.size() || at - from > 65'535 || word_at(from) != word_at(at)) {
      ++at;
      continue;
    }
    std::size_t length = 4;
    while (at + length + 12 < content.size() && content[from + length] == content[at + length]) ++length;
    (format == lz_format::snappy ? append_snappy_tokens : append_lz4_token)(
        out, std::span(content).subspan(begin, at - begin), static_cast<std::uint32_t>(length),
        static_cast<std::uint32_t>(at - from));
    begin = at += length;
  }
  return out;
}

// Cycles for the turns of the loops, from docs/design/kernels.md.
struct turn_cycles {
  double four, token, more, more_16, steps, lengths, exits, entries, open, walk, start;
};
constexpr turn_cycles kLz4Cycles{425, 422, 96, 93, 194, 266, 125, 291, 765, 196, 64};
constexpr turn_cycles kSnappyCycles{365, 289, 0, 0, 199, 231, 138, 292, 651, 196, 64};
constexpr double kScan = 600;  // bits to counts, five shuffles, barriers: not a loop

struct window_cycles {
  double stepped, parsed, tokens;
  double chains;                                // of the lengths of several bytes, whichever way tokens are found
  double lengths, entries, open, walk, starts;  // numbers of turns
};

// The cycles of the bytes after the first, at `at`, of a length that begins with `full` bytes of 255 (extend_length).
double chain_cycles(const turn_cycles& turn, std::uint32_t at, std::uint32_t full) {
  double cycles = 0;
  for (++at; full > 0; ++at, --full) {
    if (at % 16 == 0) {
      const std::uint32_t wide = (full - 1) / 16;
      cycles += (wide + 1) * turn.more_16;
      at += 16 * wide;
      full -= 16 * wide;
    }
    cycles += turn.more;
  }
  return cycles;
}

// The same for both lengths of the LZ4 token at `at`.
double chain_cycles(const turn_cycles& turn, byte_view view, std::uint32_t at) {
  const lz_token token = lz4_token(view, at);
  double cycles = token.literals < 15 ? 0 : chain_cycles(turn, at + 1, (token.literals - 15) / 255);
  if (token.match >= 19) cycles += chain_cycles(turn, token.literals_at + token.literals + 2, (token.match - 19) / 255);
  return cycles;
}

bool is_known(lz_format format, byte_view view, std::uint32_t at) {
  return (format == lz_format::lz4_block ? step_at<lz_format::lz4_block>(view, at)
                                         : step_at<lz_format::snappy>(view, at))
      .known;
}

// The cycles of one lane that steps over tokens with these starts, as `step_over_tokens` does.
double stepped_cycles(lz_format format, byte_view view, std::span<const std::uint16_t> starts) {
  const bool is_lz4 = format == lz_format::lz4_block;
  const turn_cycles& turn = is_lz4 ? kLz4Cycles : kSnappyCycles;
  double cycles = 0;
  bool is_long = false;
  for (std::size_t i = 0; i < starts.size();) {
    cycles += turn.four;
    std::uint32_t known = 0;
    while (known < 4 && i + known < starts.size() && is_known(format, view, starts[i + known])) ++known;
    i += known;
    if (known == 4) {
      is_long = false;
      continue;
    }
    const bool several = is_long && known == 0;
    do {
      cycles += turn.token;
      if (i >= starts.size()) break;  // a token that does not end in the window
      const lz_token token = token_at(format, view, starts[i++]);
      is_long = token.literals + token.match > 255;
    } while (several && is_long);
  }
  return cycles;
}

window_cycles cycles_of(lz_format format, const lz_window& window, const lz_window_shared& shared) {
  const bool is_lz4 = format == lz_format::lz4_block;
  const turn_cycles& turn = is_lz4 ? kLz4Cycles : kSnappyCycles;
  const std::uint32_t count = shared.count;
  window_cycles out{};
  out.parsed = 4 * turn.steps + 16 * turn.exits + kScan;
  out.tokens = count;
  out.stepped = stepped_cycles(format, window.view, {shared.starts, count});
  const auto end_of = [&](std::uint32_t i) {
    return i + 1 < count ? shared.starts[i + 1] : token_at(format, window.view, shared.starts[i]).end;
  };
  std::uint32_t tokens[kLanes] = {}, unknown[kLanes] = {}, most_tokens = 0, most_unknown = 0, segments = 0, open = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = shared.starts[i];
    ++tokens[at / kSegmentBytes];
    if (end_of(i) - at > 255 - at % kSegmentBytes) ++open;
    if (is_lz4) out.chains += chain_cycles(turn, window.view, at);
  }
  for (std::uint32_t at = 0; at < kWindowBytes; at += 16) {
    const words_16 words = load_16_bytes(shared.bytes + at);
    words_16 steps;
    for (int i = 0; i < 4; ++i) steps.word[i] = is_lz4 ? lz4_steps(words.word[i]) : snappy_steps(words.word[i]);
    unknown[at / 16 % kLanes] += bit_count(is_lz4 ? unknown_steps<lz_format::lz4_block>(words, steps)
                                                  : unknown_steps<lz_format::snappy>(words, steps));
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    most_tokens = std::max(most_tokens, tokens[lane]);
    most_unknown = std::max(most_unknown, unknown[lane]);
    if (tokens[lane] != 0) ++segments;
  }
  out.lengths = (most_unknown + 1) / 2;
  out.entries = (segments + 3) / 4;
  out.open = 1 + open;
  out.walk = most_tokens / 4 + 1;
  out.starts = most_tokens;
  out.parsed += out.lengths * turn.lengths + out.entries * turn.entries + out.open * turn.open + out.walk * turn.walk +
                out.starts * turn.start;
  return out;
}

// The tokens of a stream, and those of them with a length of several bytes: one lane reads these with every check.
struct counted_tokens {
  std::uint64_t tokens = 0, long_tokens = 0;
  double bytes = 0, long_bytes = 0;    // of content
  double cycles = 0, long_cycles = 0;  // of one lane

  void add(lz_format format, byte_view view, std::uint32_t at) {
    const bool is_lz4 = format == lz_format::lz4_block, is_long = !is_known(format, view, at);
    const turn_cycles& turn = is_lz4 ? kLz4Cycles : kSnappyCycles;
    const lz_token token = token_at(format, view, at);
    const double size = token.literals + token.match;
    const double taken = is_long ? turn.token + (is_lz4 ? chain_cycles(turn, view, at) : 0) : turn.four / 4;
    ++tokens;
    bytes += size;
    cycles += taken;
    if (!is_long) return;
    ++long_tokens;
    long_bytes += size;
    long_cycles += taken;
  }
};

// The windows that the decoder processes with one lane, because few tokens are expected (append_window).
struct lone_windows {
  std::uint32_t all = 0, lone = 0;
  std::uint32_t above_bar = 0;  // of all
  double cycles = 0, most = 0;
};
constexpr double kWindowBar = 15'000;

lone_windows windows_of_one_lane(lz_format format, byte_view source) {
  const warp lanes;
  lone_windows out;
  std::uint32_t tokens = 0, token_bytes = 0;  // of the last window
  for (std::uint32_t at = 1; at < source.size;) {
    lz_window_shared shared;
    const lz_window window = load_window(source, at, shared, lanes);
    const bool many = tokens != 0 && (window.view.size - window.from) * tokens >= kManyTokens * token_bytes;
    if (many) {
      parse_window(format, window, shared, lanes);
    } else {
      shared.count = step_over_tokens(format, window, shared.starts);
    }
    if (shared.count == 0) {  // longer than a window
      const std::uint32_t end = token_at(format, source, at).end;
      if (end == 0) break;
      at = end;
      tokens = token_bytes = 0;
      continue;
    }
    ++out.all;
    const window_cycles one = cycles_of(format, window, shared);
    const double cycles = (many ? one.parsed : one.stepped) + one.chains;
    out.above_bar += cycles > kWindowBar ? 1 : 0;
    if (!many) {
      ++out.lone;
      out.cycles += cycles;
      out.most = std::max(out.most, cycles);
    }
    const std::uint32_t end = window.at + token_at(format, window.view, shared.starts[shared.count - 1]).end;
    tokens = shared.count;
    token_bytes = end - at;
    at = end;
  }
  return out;
}

// The figures of docs/design/0012 on parsing, by windows of streams; and their limit.
TEST(LzParse, TakesFewCyclesByTheModel) {
  const warp lanes;
  std::mt19937 random(3);
  constexpr double window_cycles::* kMembers[] = {
      &window_cycles::stepped, &window_cycles::parsed,  &window_cycles::tokens,
      &window_cycles::chains,  &window_cycles::lengths, &window_cycles::entries,
      &window_cycles::open,    &window_cycles::walk,    &window_cycles::starts};
  const auto measure = [&](lz_format format, const bytes& stream, const std::string& name) {
    const byte_view source{reinterpret_cast<const std::uint8_t*>(stream.data()),
                           static_cast<std::uint32_t>(stream.size())};
    window_cycles sum{}, most{};
    counted_tokens counted;
    std::uint32_t windows = 0;
    for (std::uint32_t at = 1; at < source.size;) {
      lz_window_shared shared;
      const lz_window window = load_window(source, at, shared, lanes);
      parse_window(format, window, shared, lanes);
      if (shared.count == 0) {  // longer than a window: not found by parsing
        const std::uint32_t end = token_at(format, source, at).end;
        if (end == 0) break;
        counted.add(format, source, at);
        at = end;
        continue;
      }
      for (std::uint32_t i = 0; i < shared.count; ++i) counted.add(format, window.view, shared.starts[i]);
      const window_cycles one = cycles_of(format, window, shared);
      for (const auto member : kMembers) {
        sum.*member += one.*member;
        most.*member = std::max(most.*member, one.*member);
      }
      at = window.at + token_at(format, window.view, shared.starts[shared.count - 1]).end;
      ++windows;
    }
    if (windows == 0) return;
    std::printf("%s, %s: %u windows of %.0f tokens (most %.0f); one lane %.0f (%.0f), all lanes %.0f (%.0f) cycles\n",
                format == lz_format::lz4_block ? "lz4" : "snappy", name.c_str(), windows, sum.tokens / windows,
                most.tokens, sum.stepped / windows, most.stepped, sum.parsed / windows, most.parsed);
    std::printf("  turns in all: lengths %.0f, entries %.0f, open %.0f, walk %.0f, starts %.0f\n", sum.lengths,
                sum.entries, sum.open, sum.walk, sum.starts);
    std::printf("  in addition, long lengths: %.0f (%.0f) cycles\n", sum.chains / windows, most.chains);
    const lone_windows left = windows_of_one_lane(format, source);
    std::printf("  left to one lane: %u of %u windows, %.0f (%.0f) cycles; %u of all above the bar\n", left.lone,
                left.all, left.cycles / std::max(left.lone, 1U), left.most, left.above_bar);
    const auto a_byte = [](double cycles, double bytes) { return cycles / std::max(bytes, 1.0); };
    std::printf(
        "  %llu of %llu tokens (%.2f %%) have a length of several bytes, and %.1f %% of the content; one lane %.1f "
        "cycles for a byte of it, the others %.1f\n",
        static_cast<unsigned long long>(counted.long_tokens), static_cast<unsigned long long>(counted.tokens),
        100.0 * static_cast<double>(counted.long_tokens) / static_cast<double>(counted.tokens),
        100 * counted.long_bytes / counted.bytes, a_byte(counted.long_cycles, counted.long_bytes),
        a_byte(counted.cycles - counted.long_cycles, counted.bytes - counted.long_bytes));
    if (sum.tokens / windows >= 2 * kManyTokens) {
      EXPECT_LE(sum.parsed / windows, kWindowBar) << name;
      EXPECT_LE(sum.parsed, sum.stepped) << name;
    }
  };
  for (const lz_format format : {lz_format::lz4_block, lz_format::snappy}) {
    for (const char* kind : kArrays)
      for (const bool shuffled : {false, true}) {
        const bytes content = array_of(kind, 1'024'000, shuffled);
        bytes stream = format == lz_format::snappy ? stream_of(format, content) : lz4_of(content);
        stream.insert(stream.begin(), std::byte{0});
        measure(format, stream, kind + std::string(shuffled ? ", shuffled" : ""));
      }
    for (const token_lengths& lengths : kLengths) {
      bytes stream = stream_of(format == lz_format::snappy, lengths, 60'000, random).first;
      // From the first token on.
      stream.erase(stream.begin(), stream.begin() + (format == lz_format::snappy ? 3 : 0));
      stream.insert(stream.begin(), std::byte{0});
      measure(format, stream, lengths.name);
    }
  }
}

}  // namespace
}  // namespace penstock::inline v0::device
