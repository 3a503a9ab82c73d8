// A codec: runs of equal items, each as a count of 1 to 255 and the item.
//
// In Zarr metadata {"name": "run_length"}, after the codec `bytes`; the setting "item_bytes" is the length of an item,
// and the element's if it is absent.

#include <algorithm>
#include <cstring>
#include <string>

#include "extensions.h"

namespace ps = penstock;

namespace {

constexpr std::size_t kLongestRun = 255;

class run_length_codec final : public ps::byte_codec {
 public:
  explicit run_length_codec(std::size_t item_bytes) : item_(item_bytes) {}

  std::string_view name() const override { return "run_length"; }
  std::string describe() const override { return "run_length(item_bytes=" + std::to_string(item_) + ")"; }

  // Every item may be a run of its own.
  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    const std::uint64_t items = decoded_bytes / item_;
    return items > ps::kUnbounded / (item_ + 1) ? ps::kUnbounded : items * (item_ + 1);
  }

  ps::result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                                ps::worker_scratch& scratch) const override {
    if (encoded.size() % (item_ + 1) != 0)
      return ps::error(ps::errc::corrupt_data,
                       "the last run is truncated: " + std::to_string(encoded.size()) + " bytes");
    std::size_t made = 0;
    for (std::size_t at = 0; at < encoded.size(); at += item_ + 1) {
      const auto count = std::to_integer<std::size_t>(encoded[at]);
      if (count == 0) return ps::error(ps::errc::corrupt_data, "a run of no items at byte " + std::to_string(at));
      if (count * item_ > out.size() - made)
        return ps::out_of_room(scratch, "the runs decode to more than " + std::to_string(out.size()) + " bytes");
      for (std::size_t i = 0; i < count; ++i, made += item_) std::memcpy(&out[made], &encoded[at + 1], item_);
    }
    return std::span<const std::byte>(out.first(made));
  }

  ps::result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                                   ps::worker_scratch&) const override {
    if (decoded.size() % item_ != 0)
      return ps::error(ps::errc::invalid_argument,
                       std::to_string(decoded.size()) + " bytes are not whole items of " + std::to_string(item_));
    std::size_t made = 0;
    for (std::size_t at = 0; at < decoded.size();) {
      std::size_t count = 1;
      while (count < kLongestRun && at + (count + 1) * item_ <= decoded.size() &&
             std::memcmp(&decoded[at], &decoded[at + count * item_], item_) == 0)
        ++count;
      out[made] = static_cast<std::byte>(count);
      std::memcpy(&out[made + 1], &decoded[at], item_);
      made += item_ + 1;
      at += count * item_;
    }
    return made;
  }

 private:
  std::size_t item_;
};

class provider final : public ps::codec_provider {
 public:
  ps::result<ps::compiled_codec> make(const ps::codec_config& config, const ps::stage_type& input) const override {
    if (config.name != "run_length") return ps::error(ps::errc::unsupported, "no codec '" + config.name + "'");
    if (input.is_array) return ps::error(ps::errc::corrupt_data, "codec 'run_length' follows the codec 'bytes'");
    std::uint64_t item = input.type.item_bytes();
    const ps::json* const given = config.configuration.find("item_bytes");
    if (given != nullptr && (!given->get(item) || item == 0 || item > 1024))
      return ps::error(ps::errc::corrupt_data, "codec 'run_length': item_bytes is " + given->dump());
    return ps::compressed_stage(std::make_shared<run_length_codec>(item), input);
  }
};

}  // namespace

std::shared_ptr<const ps::codec_provider> run_length_codecs() { return std::make_shared<provider>(); }
