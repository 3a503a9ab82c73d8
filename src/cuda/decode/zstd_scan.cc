#include "cuda/decode/zstd_scan.h"

#include <algorithm>
#include <string>

#include "cuda/decode/zstd_sequences.h"

namespace penstock::inline v0::device {
namespace {

constexpr std::uint32_t kMagic = 0xfd2fb528u, kSkippable = 0x184d2a50u, kSkippableMask = 0xfffffff0u;
constexpr std::uint32_t kNone = 0xffffffffu;

error damaged_zstd(const char* what) { return {errc::corrupt_data, std::string("damaged zstd data: ") + what}; }

// The fields of a frame's header that are used here.
struct frame_header {
  std::uint64_t window = 0;
  std::uint64_t content_size = ~std::uint64_t{0};
  bool checksum = false;
};

// The state that the blocks of a frame pass to later ones.
struct frame_memory {
  std::uint32_t block_limit = 0;
  std::uint32_t tree = 0, tree_bytes = 0;  // 0 bytes: none yet
  std::uint32_t tables[3] = {kNone, kNone, kNone};
};

class scanner {
 public:
  scanner(std::span<const std::byte> bytes, std::uint64_t decoded, std::uint32_t part, zstd_index& index)
      : bytes_(bytes), left_(decoded), part_(part), index_(index) {}

  result<> run() {
    if (bytes_.empty()) return damaged_zstd("no bytes");
    while (at_ < bytes_.size()) {
      if (!has(4)) return damaged_zstd("no magic number");
      const auto magic = static_cast<std::uint32_t>(number(at_, 4));
      if ((magic & kSkippableMask) == kSkippable) {
        if (!has(8)) return damaged_zstd("a skippable frame ends early");
        const std::uint64_t size = number(at_ + 4, 4);
        if (size > bytes_.size() - at_ - 8) return damaged_zstd("a skippable frame ends early");
        at_ += 8 + size;
      } else if (magic == kMagic) {
        at_ += 4;
        PENSTOCK_TRY(frame());
      } else {
        return damaged_zstd("no magic number");
      }
    }
    return {};
  }

 private:
  bool has(std::uint64_t count) const { return bytes_.size() - at_ >= count; }
  std::uint64_t number(std::uint64_t at, int count) const {
    std::uint64_t value = 0;
    for (int i = count; i-- > 0;)
      value = value << 8 | static_cast<std::uint64_t>(bytes_[at + static_cast<unsigned>(i)]);
    return value;
  }

  result<frame_header> header() {
    if (!has(1)) return damaged_zstd("a frame header ends early");
    const auto flags = static_cast<unsigned>(number(at_, 1));
    const bool single = (flags & 32) != 0;
    const int id_bytes = (flags & 3) == 3 ? 4 : static_cast<int>(flags & 3);
    const int size_code = static_cast<int>(flags >> 6);
    const int size_bytes = size_code == 0 ? (single ? 1 : 0) : 1 << size_code;
    const int window_bytes = single ? 0 : 1;
    if (!has(static_cast<std::uint64_t>(1 + window_bytes + id_bytes + size_bytes)))
      return damaged_zstd("a frame header ends early");
    if ((flags & 8) != 0) return damaged_zstd("a reserved bit of a frame header is set");
    ++at_;
    frame_header made;
    made.checksum = (flags & 4) != 0;
    if (!single) {
      const auto window = static_cast<unsigned>(number(at_++, 1));
      if (window >> 3 > 21) return damaged_zstd("a window of 4 GiB or more");
      const std::uint64_t base = std::uint64_t{1} << (10 + (window >> 3));
      made.window = base + base / 8 * (window & 7);
    }
    if (number(at_, id_bytes) != 0) return error{errc::unsupported, "zstd data needs a dictionary"};
    at_ += static_cast<unsigned>(id_bytes);
    if (size_bytes != 0) made.content_size = number(at_, size_bytes) + (size_bytes == 2 ? 256 : 0);
    at_ += static_cast<unsigned>(size_bytes);
    if (single) made.window = made.content_size;
    return made;
  }

  result<> frame() {
    PENSTOCK_ASSIGN(const frame_header head, header());
    if (head.content_size != ~std::uint64_t{0} && head.content_size > left_)
      return damaged_zstd("a frame is larger than the output");
    frame_memory memory;
    memory.block_limit = static_cast<std::uint32_t>(std::min<std::uint64_t>(head.window, kMostBlockBytes));
    zstd_frame made{};
    made.part = part_;
    made.first_block = static_cast<std::uint32_t>(index_.blocks.size());
    made.content_size =
        head.content_size == ~std::uint64_t{0} ? kUnknownSize : static_cast<std::uint32_t>(head.content_size);
    for (bool last = false; !last;) {
      if (!has(3)) return damaged_zstd("a block header ends early");
      const auto block_header = static_cast<std::uint32_t>(number(at_, 3));
      at_ += 3;
      last = (block_header & 1) != 0;
      PENSTOCK_TRY(block(block_header >> 1 & 3, block_header >> 3, memory));
    }
    made.blocks = static_cast<std::uint32_t>(index_.blocks.size()) - made.first_block;
    if (head.checksum) {
      if (!has(4)) return damaged_zstd("a checksum ends early");
      made.has_checksum = 1;
      made.checksum = static_cast<std::uint32_t>(number(at_, 4));
      at_ += 4;
    }
    index_.frames.push_back(made);
    return {};
  }

  result<> block(std::uint32_t type, std::uint32_t size, frame_memory& memory) {
    if (type == 3) return damaged_zstd("a block of the reserved type");
    if (size > memory.block_limit) return damaged_zstd("a block is larger than its frame allows");
    const std::uint32_t encoded = type == 1 ? 1 : size;
    if (!has(encoded)) return damaged_zstd("a block ends early");
    zstd_block made{};
    made.part = part_;
    made.content = static_cast<std::uint32_t>(at_);
    made.content_bytes = encoded;
    made.type = static_cast<std::uint8_t>(type);
    made.size = type == 2 ? memory.block_limit : size;
    at_ += encoded;
    std::uint64_t least = size;
    if (type == 2) {
      PENSTOCK_TRY(compressed(made, memory));
      least = made.literals_bytes + 3ull * made.sequence_count;
    }
    if (least > std::min<std::uint64_t>(left_, memory.block_limit))
      return damaged_zstd("a block is larger than the output");
    left_ -= least;
    if (least == 0) return {};
    made.direct = direct(made);
    if (made.sequence_count == 0) place_ += least;
    place_known_ = place_known_ && made.sequence_count == 0;
    if (type == 2 && made.literals_type >= 2 && made.direct == kNotDirect)
      index_.literal_bytes += (made.literals_bytes + 15) / 16 * 16;
    if (type == 2) index_.sequences += made.sequence_count;
    index_.blocks.push_back(made);
    return {};
  }

  // See zstd_block. A block's position is known until one has sequences, whose matches have not been summed yet.
  std::uint32_t direct(const zstd_block& block) const {
    const bool raw = block.type == 0, literals = block.type == 2 && block.literals_type >= 2;
    if (!place_known_ || block.sequence_count != 0 || !(raw || literals)) return kNotDirect;
    return static_cast<std::uint32_t>(place_);
  }

  result<> compressed(zstd_block& block, frame_memory& memory) {
    const std::uint64_t end = block.content + block.content_bytes;
    PENSTOCK_ASSIGN(const std::uint64_t sequences, literals(block, memory, end));
    std::uint64_t at = sequences;
    if (at >= end) return damaged_zstd("a block has no sequences section");
    const auto first = static_cast<std::uint32_t>(number(at, 1));
    const int count_bytes = first < 128 ? 1 : first < 255 ? 2 : 3;
    if (end - at < static_cast<unsigned>(count_bytes)) return damaged_zstd("a sequences section ends early");
    std::uint32_t count = first;
    if (count_bytes == 2) count = ((first - 128) << 8) + static_cast<std::uint32_t>(number(at + 1, 1));
    if (count_bytes == 3) count = 0x7f00 + static_cast<std::uint32_t>(number(at + 1, 2));
    at += static_cast<unsigned>(count_bytes);
    if (count == 0) return at == end ? result<>() : damaged_zstd("bytes after a block without sequences");
    if (at >= end) return damaged_zstd("a sequences section ends early");
    block.modes = static_cast<std::uint8_t>(number(at++, 1));
    if ((block.modes & 3) != 0) return damaged_zstd("reserved bits of a sequences section are set");
    block.sequences = static_cast<std::uint32_t>(at);
    block.sequence_count = count;
    block.sequences_buffer = index_.sequences;
    for (int table = 0; table < 3; ++table) {
      if ((block.modes >> (6 - 2 * table) & 3) != 3)
        memory.tables[table] = static_cast<std::uint32_t>(index_.blocks.size());
      if (memory.tables[table] == kNone) return damaged_zstd("a table is repeated before any is defined");
      block.table_block[table] = memory.tables[table];
    }
    return {};
  }

  // Reads the literals section of `block`; returns the offset of its end.
  result<std::uint64_t> literals(zstd_block& block, frame_memory& memory, std::uint64_t end) {
    std::uint64_t at = block.content;
    if (at >= end) return damaged_zstd("a block has no literals section");
    const auto head = static_cast<std::uint32_t>(number(at, 1));
    const std::uint32_t type = head & 3, format = head >> 2 & 3;
    block.literals_type = static_cast<std::uint8_t>(type);
    std::uint64_t encoded;
    if (type < 2) {
      const int bytes = format == 1 ? 2 : format == 3 ? 3 : 1;
      if (end - at < static_cast<unsigned>(bytes)) return damaged_zstd("a literals header ends early");
      block.literals_bytes = static_cast<std::uint32_t>(number(at, bytes) >> (bytes == 1 ? 3 : 4));
      at += static_cast<unsigned>(bytes);
      encoded = type == 0 ? block.literals_bytes : 1;
    } else {
      const int bytes = format < 2 ? 3 : static_cast<int>(format) + 2, bits = format < 2 ? 10 : format == 2 ? 14 : 18;
      if (end - at < static_cast<unsigned>(bytes)) return damaged_zstd("a literals header ends early");
      const std::uint64_t sizes = number(at, bytes) >> 4, mask = (1ull << bits) - 1;
      block.literals_bytes = static_cast<std::uint32_t>(sizes & mask);
      block.streams = format == 0 ? 1 : 4;
      at += static_cast<unsigned>(bytes);
      encoded = sizes >> bits & mask;
      if (block.literals_bytes == 0) return damaged_zstd("Huffman streams of no literals");
    }
    if (block.literals_bytes > memory.block_limit) return damaged_zstd("more literals than a block holds");
    if (encoded > end - at) return damaged_zstd("a literals section ends early");
    block.literals = static_cast<std::uint32_t>(at);
    block.literals_encoded = static_cast<std::uint32_t>(encoded);
    if (type >= 2) PENSTOCK_TRY(tree(block, memory));
    return at + encoded;
  }

  result<> tree(zstd_block& block, frame_memory& memory) {
    if (block.literals_type == 2) {
      if (block.literals_encoded == 0) return damaged_zstd("a literals section ends early");
      const auto head = static_cast<std::uint32_t>(number(block.literals, 1));
      const std::uint32_t bytes = head < 128 ? 1 + head : 1 + (head - 126) / 2;
      if (bytes > block.literals_encoded) return damaged_zstd("a Huffman tree ends early");
      memory.tree = block.literals;
      memory.tree_bytes = bytes;
      block.literals += bytes;
      block.literals_encoded -= bytes;
    } else if (memory.tree_bytes == 0) {
      return damaged_zstd("a Huffman tree is repeated before any is defined");
    }
    block.tree = memory.tree;
    block.tree_bytes = memory.tree_bytes;
    block.literals_buffer = index_.literal_bytes;
    return {};
  }

  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t left_;       // decoded bytes that no block so far produces
  std::uint64_t place_ = 0;  // decoded bytes before the block, as far as they are known
  bool place_known_ = true;
  std::uint32_t part_;
  zstd_index& index_;
};

}  // namespace

void zstd_index::clear() {
  frames.clear();
  blocks.clear();
  literal_bytes = sequences = 0;
}

result<> scan_zstd(std::span<const std::byte> bytes, std::uint64_t decoded_bytes, std::uint32_t part,
                   zstd_index& index) {
  if (decoded_bytes > kMostZstdBytes || bytes.size() > 2 * kMostZstdBytes)
    return error{errc::unsupported, "zstd data of more than 128 MiB is left to the host"};
  const std::size_t frames = index.frames.size(), blocks = index.blocks.size();
  const std::uint64_t literal_bytes = index.literal_bytes, sequences = index.sequences;
  auto done = scanner(bytes, decoded_bytes, part, index).run();
  if (done.ok()) return {};
  index.frames.resize(frames);
  index.blocks.resize(blocks);
  index.literal_bytes = literal_bytes;
  index.sequences = sequences;
  return done;
}

}  // namespace penstock::inline v0::device
