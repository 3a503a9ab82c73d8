// Ranges of small objects as one object, from small numbers: every read returns the bytes of the concatenated ranges,
// in the requested memory, or is refused.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/extend/store.h>
#include "codec_fuzz.h"
#include "store/chained_store.h"

namespace {

using namespace penstock;

/// Objects "a", "b" and "c"; "d" does not exist. Completes the last request first.
class few_objects final : public store {
 public:
  explicit few_objects(fuzz_input& input) : lends_(input.below(2) != 0) {
    for (std::size_t i = 0; i < std::size(objects_); ++i) {
      objects_[i].resize(input.below(9));
      for (std::size_t k = 0; k < objects_[i].size(); ++k) objects_[i][k] = static_cast<std::byte>(16 * (i + 1) + k);
    }
  }
  const std::vector<std::byte>* find(std::string_view key) const {
    return key < "d" ? &objects_[static_cast<std::size_t>(key[0] - 'a')] : nullptr;
  }
  store_traits traits() const override {
    store_traits out;
    out.lends_bytes = lends_;
    out.versions = out.writable = out.guards = true;
    return out;
  }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token) const override {
    for (std::size_t i = reads.size(); i-- > 0;) {
      const std::vector<std::byte>* const found = find(reads[i].key);
      if (found != nullptr)
        sink.complete(reads[i].tag, answer(reads[i], *found));
      else
        sink.complete(reads[i].tag, error(errc::not_found, "no such object"));
    }
  }
  std::string uri() const override { return "memory:"; }

 private:
  result<read_done> answer(const byte_read& wanted, const std::vector<std::byte>& object) const {
    if (lends_) return answer_from(wanted, object, {}, std::shared_ptr<const void>());
    PENSTOCK_ASSIGN(const byte_extent extent, find_extent(wanted, object.size()));
    PENSTOCK_ASSIGN(const std::span<std::byte> room, find_room(wanted, extent.length));
    std::copy_n(object.begin() + static_cast<std::ptrdiff_t>(extent.offset), extent.length, room.begin());
    read_done out;
    out.bytes = room.first(static_cast<std::size_t>(extent.length));
    return out;
  }

  bool lends_;
  std::vector<std::byte> objects_[3];
};

class growing final : public read_buffer {
 public:
  result<std::span<std::byte>> reserve(std::uint64_t bytes) override {
    bytes_.resize(static_cast<std::size_t>(bytes));
    return std::span(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

class one_answer final : public completion_sink {
 public:
  void complete(std::uint64_t tag, result<read_done> done) override {
    require(tag == 7 && !made);
    made.emplace(std::move(done));
  }
  std::optional<result<read_done>> made;
};

}  // namespace

extern "C" int run_chained_store(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const auto from = std::make_shared<const few_objects>(input);
  std::vector<chained_store::link> links(input.below(6));
  std::vector<std::byte> whole;
  std::vector<bool> known;  // of each byte: it exists
  for (chained_store::link& each : links) {
    each.key = std::string(1, static_cast<char>('a' + input.below(4)));
    each.offset = input.below(9);
    each.length = input.below(6);
    const std::vector<std::byte>* const object = from->find(each.key);
    for (std::uint64_t i = 0; i < each.length; ++i) {
      const bool has = object != nullptr && each.offset + i < object->size();
      whole.push_back(has ? (*object)[each.offset + i] : std::byte{0});
      known.push_back(has);
    }
  }
  const chained_store chain("all", from, links);
  require(chain.bytes() == whole.size() && !chain.traits().versions && !chain.traits().writable);
  for (std::uint32_t reads = 0; reads < 8; ++reads) {
    byte_read wanted;
    wanted.key = input.below(16) == 15 ? "other" : "all";
    wanted.tag = 7;
    const std::uint32_t kind = input.below(4);
    if (kind != 3) wanted.range = {input.below(24), input.below(16), kind == 2};
    if (input.below(8) == 7) wanted.max_bytes = input.below(16);
    growing buffer;
    std::vector<std::byte> room(kind == 3 ? 0 : static_cast<std::size_t>(wanted.range.length));
    if (input.below(2) != 0)
      wanted.destination = room;
    else
      wanted.buffer = &buffer;
    if (wanted.destination.empty()) wanted.buffer = &buffer;
    const auto extent = find_extent(wanted, whole.size());
    one_answer answer;
    chain.read({&wanted, 1}, answer, {});
    require(answer.made.has_value());
    bool is_known = wanted.key == "all" && extent.ok();
    for (std::uint64_t i = 0; is_known && i < extent->length; ++i) is_known = known[extent->offset + i];
    require(answer.made->ok() == is_known);
    if (!is_known) continue;
    const read_done& done = **answer.made;
    require(done.object_size == whole.size() && done.bytes.size() == extent->length);
    require(wanted.destination.empty() || done.bytes.empty() || done.bytes.data() == room.data());
    require(
        std::equal(done.bytes.begin(), done.bytes.end(), whole.begin() + static_cast<std::ptrdiff_t>(extent->offset)));
  }
  return 0;
}
