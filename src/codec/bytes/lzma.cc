// The output of Python's lzma module with numcodecs' settings, whose numbers are those of liblzma.

#include <fmt/format.h>
#include <lzma.h>

#include <array>
#include <limits>
#include <optional>

#include "codec/byte_codecs.h"
#include "codec/codec_members.h"
#include "codec/library_contexts.h"

namespace penstock::inline v0 {
namespace {

enum class lzma_format : std::uint8_t { automatic, xz, alone, raw };  // in the order of Python's numbers
constexpr std::string_view kFormats[] = {"auto", "xz", "alone", "raw"};

// A decoder's dictionary has the size that the stream states: the xz program's settings need 65 MiB at most.
constexpr std::uint64_t kDecoderMemory = std::uint64_t{256} << 20;

/// liblzma's list of filters, with the structs that they refer to.
class filter_list {
 public:
  filter_list() noexcept { filters_[0].id = LZMA_VLI_UNKNOWN; }

  static result<std::shared_ptr<const filter_list>> of_preset(std::uint32_t preset, bool legacy) {
    auto made = std::make_shared<filter_list>();
    PENSTOCK_TRY(made->add_lzma(legacy ? LZMA_FILTER_LZMA1 : LZMA_FILTER_LZMA2, preset));
    return std::shared_ptr<const filter_list>(std::move(made));
  }
  /// As in Python: [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}].
  static result<std::shared_ptr<const filter_list>> parse(const json::array_t& texts, const codec_config& config) {
    if (texts.empty() || texts.size() > LZMA_FILTERS_MAX) {
      return error{errc::corrupt_data,
                   fmt::format("codec 'lzma' should have 1 to {} filters, has {}", LZMA_FILTERS_MAX, texts.size())};
    }
    auto made = std::make_shared<filter_list>();
    for (const json& text : texts) {
      const codec_config filter{config.name, text};
      const auto members = codec_members::of(filter, {"id", "dist", "start_offset", "preset", "dict_size", "lc", "lp",
                                                      "pb", "mode", "nice_len", "mf", "depth"});
      if (!members.ok()) return members.error().clone().note("in a filter of 'lzma'");
      auto added = made->add(*members);
      if (!added.ok()) return std::move(added).error().note("in a filter of 'lzma'");
    }
    return std::shared_ptr<const filter_list>(std::move(made));
  }

  const lzma_filter* data() const noexcept { return filters_.data(); }

 private:
  result<> add_lzma(lzma_vli id, std::uint32_t preset) {
    if (lzma_lzma_preset(&lzma_[used_], preset) != 0) {
      return error{errc::corrupt_data, fmt::format("codec 'lzma' has no preset {:#x}", preset)};
    }
    add(id, &lzma_[used_]);
    return {};
  }
  void add(lzma_vli id, void* options) noexcept {
    filters_[used_++] = {id, options};
    filters_[used_] = {LZMA_VLI_UNKNOWN, nullptr};
  }

  result<> add(const codec_members& members) {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    PENSTOCK_ASSIGN(const std::int64_t id, members.integer("id", 0, std::numeric_limits<std::int64_t>::max()));
    const lzma_vli which = static_cast<lzma_vli>(id);
    if (which == LZMA_FILTER_DELTA) {
      PENSTOCK_ASSIGN(const std::int64_t distance,
                      members.integer("dist", LZMA_DELTA_DIST_MIN, LZMA_DELTA_DIST_MAX, 1));
      delta_[used_].type = LZMA_DELTA_TYPE_BYTE;
      delta_[used_].dist = static_cast<std::uint32_t>(distance);
      add(which, &delta_[used_]);
      return {};
    }
    if (which != LZMA_FILTER_LZMA1 && which != LZMA_FILTER_LZMA2) {
      if (!lzma_filter_decoder_is_supported(which)) {
        return error{errc::unsupported, fmt::format("codec 'lzma' has no filter {}", id)};
      }
      PENSTOCK_ASSIGN(const std::int64_t start, members.integer("start_offset", 0, kMost, 0));
      branch_[used_].start_offset = static_cast<std::uint32_t>(start);
      add(which, &branch_[used_]);
      return {};
    }
    PENSTOCK_ASSIGN(const std::int64_t preset, members.integer("preset", 0, kMost, LZMA_PRESET_DEFAULT));
    lzma_options_lzma& options = lzma_[used_];
    PENSTOCK_TRY(add_lzma(which, static_cast<std::uint32_t>(preset)));
    const auto take = [&](std::string_view name, std::uint32_t& setting) -> result<> {
      PENSTOCK_ASSIGN(const std::int64_t value, members.integer(name, 0, kMost, std::int64_t{setting}));
      setting = static_cast<std::uint32_t>(value);
      return {};
    };
    std::uint32_t mode = options.mode, finder = options.mf;
    PENSTOCK_TRY(take("dict_size", options.dict_size));
    PENSTOCK_TRY(take("lc", options.lc));
    PENSTOCK_TRY(take("lp", options.lp));
    PENSTOCK_TRY(take("pb", options.pb));
    PENSTOCK_TRY(take("mode", mode));
    PENSTOCK_TRY(take("nice_len", options.nice_len));
    PENSTOCK_TRY(take("mf", finder));
    PENSTOCK_TRY(take("depth", options.depth));
    options.mode = static_cast<lzma_mode>(mode);
    options.mf = static_cast<lzma_match_finder>(finder);
    return {};
  }

  std::array<lzma_filter, LZMA_FILTERS_MAX + 1> filters_{};
  std::array<lzma_options_lzma, LZMA_FILTERS_MAX> lzma_{};
  std::array<lzma_options_delta, LZMA_FILTERS_MAX> delta_{};
  std::array<lzma_options_bcj, LZMA_FILTERS_MAX> branch_{};
  std::size_t used_ = 0;
};

struct lzma_settings {
  lzma_format format = lzma_format::xz;
  lzma_check check = LZMA_CHECK_CRC64;
  std::shared_ptr<const filter_list> filters;  // of the encoder, and of raw streams
  std::string description;
};

void* take_memory(void* memory, std::size_t items, std::size_t bytes) {
  return static_cast<library_memory*>(memory)->take(items * bytes);
}

class lzma_run {
 public:
  lzma_run() noexcept = default;
  lzma_run(const lzma_run&) = delete;
  ~lzma_run() { lzma_end(&stream); }

  // A decoder returns LZMA_OK at the end of its input or room, so it is called until it makes no progress.
  lzma_ret finish() noexcept {
    lzma_ret code = LZMA_OK;
    while (code == LZMA_OK) code = lzma_code(&stream, LZMA_FINISH);
    return code;
  }

  lzma_stream stream = LZMA_STREAM_INIT;
};

class lzma_codec final : public byte_codec {
 public:
  explicit lzma_codec(lzma_settings settings) : settings_(std::move(settings)) {}

  std::string_view name() const override { return "lzma"; }
  std::string describe() const override { return settings_.description; }

  std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const override {
    // LZMA2 stores incompressible data unchanged; LZMA1 cannot.
    return saturating_add(decoded_bytes, decoded_bytes / 16 + 1024);
  }

  result<std::span<const std::byte>> decode(std::span<const std::byte> encoded, std::span<std::byte> out,
                                            worker_scratch& scratch) const override {
    lzma_allocator memory{take_memory, library_memory::give_to, &scratch.libraries().memory()};
    lzma_run run;
    run.stream.allocator = &memory;
    run.stream.next_in = reinterpret_cast<const std::uint8_t*>(encoded.data());
    run.stream.avail_in = encoded.size();
    run.stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    run.stream.avail_out = out.size();
    lzma_ret code = begin(run.stream);
    if (code == LZMA_OK) code = run.finish();
    std::uint8_t beyond = 0;
    const std::size_t unused = run.stream.avail_out;
    if (code == LZMA_BUF_ERROR && unused == 0) {
      // liblzma reads some end marks only if there is more room.
      run.stream.next_out = &beyond;
      run.stream.avail_out = 1;
      code = run.finish();
      if (run.stream.avail_out == 0) {
        scratch.out_of_room = true;
        return error{errc::corrupt_data, fmt::format("lzma stream decodes to more than {} bytes", out.size())};
      }
    }
    switch (code) {
      case LZMA_STREAM_END:
        break;
      case LZMA_MEM_ERROR:
        return error{errc::resource_exhausted, "no memory for an lzma decoder"};
      case LZMA_MEMLIMIT_ERROR:
        return error{errc::corrupt_data, fmt::format("lzma stream needs a decoder of {} bytes, the limit is {}",
                                                     lzma_memusage(&run.stream), kDecoderMemory)};
      case LZMA_BUF_ERROR:
        return error{errc::corrupt_data, fmt::format("lzma stream ends early, after {} bytes", encoded.size())};
      default:
        return error{errc::corrupt_data, fmt::format("lzma stream is damaged before byte {} (liblzma returned {})",
                                                     encoded.size() - run.stream.avail_in, static_cast<int>(code))};
    }
    if (run.stream.avail_in > 0) {
      return error{errc::corrupt_data, fmt::format("lzma stream ends after {} bytes, there are {}",
                                                   encoded.size() - run.stream.avail_in, encoded.size())};
    }
    return std::span<const std::byte>(out.data(), out.size() - unused);
  }

  // Encoders need up to 670 MiB, which is not kept for the next one.
  result<std::uint64_t> encode(std::span<const std::byte> decoded, std::span<std::byte> out,
                               worker_scratch&) const override {
    lzma_run run;
    run.stream.next_in = reinterpret_cast<const std::uint8_t*>(decoded.data());
    run.stream.avail_in = decoded.size();
    run.stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
    run.stream.avail_out = out.size();
    const lzma_filter* const filters = settings_.filters->data();
    lzma_ret code = LZMA_PROG_ERROR;
    switch (settings_.format) {
      case lzma_format::alone:
        code = lzma_alone_encoder(&run.stream, static_cast<const lzma_options_lzma*>(filters[0].options));
        break;
      case lzma_format::raw:
        code = lzma_raw_encoder(&run.stream, filters);
        break;
      default:
        code = lzma_stream_encoder(&run.stream, filters, settings_.check);
    }
    if (code == LZMA_OK) code = run.finish();
    if (code == LZMA_MEM_ERROR) return error{errc::resource_exhausted, "the system has no memory for an lzma encoder"};
    if (code == LZMA_OPTIONS_ERROR) {
      return error{errc::unsupported, "liblzma does not accept this combination of lzma's settings"};
    }
    if (code != LZMA_STREAM_END) {
      return error{errc::internal, fmt::format("lzma cannot encode {} bytes into {} (liblzma returned {})",
                                               decoded.size(), out.size(), static_cast<int>(code))};
    }
    return out.size() - run.stream.avail_out;
  }

 private:
  lzma_ret begin(lzma_stream& stream) const noexcept {
    switch (settings_.format) {
      case lzma_format::automatic:
        return lzma_auto_decoder(&stream, kDecoderMemory, LZMA_CONCATENATED);
      case lzma_format::xz:
        return lzma_stream_decoder(&stream, kDecoderMemory, LZMA_CONCATENATED);
      case lzma_format::alone:
        return lzma_alone_decoder(&stream, kDecoderMemory);
      case lzma_format::raw:
        break;
    }
    return lzma_raw_decoder(&stream, settings_.filters->data());
  }

  lzma_settings settings_;
};

}  // namespace

result<compiled_codec> make_lzma_codec(const codec_config& config, const stage_type& input) {
  PENSTOCK_ASSIGN(const codec_members members, codec_members::of(config, {"format", "check", "preset", "filters"}));
  PENSTOCK_ASSIGN(const std::int64_t format, members.integer("format", 0, 3, 1));
  PENSTOCK_ASSIGN(const std::int64_t check, members.integer("check", -1, LZMA_CHECK_ID_MAX, -1));
  PENSTOCK_ASSIGN(const std::int64_t preset,
                  members.integer("preset", 0, std::numeric_limits<std::uint32_t>::max(), LZMA_PRESET_DEFAULT));
  lzma_settings settings;
  settings.format = static_cast<lzma_format>(format);
  if (check >= 0) settings.check = static_cast<lzma_check>(check);
  if (lzma_check_is_supported(settings.check) == 0) {
    return error{errc::unsupported, fmt::format("this liblzma was built without the check {}", check)};
  }
  const bool legacy = settings.format == lzma_format::alone;
  if (members.has("filters")) {
    PENSTOCK_ASSIGN(const json::array_t* const texts, members.list("filters"));
    PENSTOCK_ASSIGN(settings.filters, filter_list::parse(*texts, config));
    if (legacy &&
        (settings.filters->data()[0].id != LZMA_FILTER_LZMA1 || settings.filters->data()[1].id != LZMA_VLI_UNKNOWN)) {
      return error{errc::corrupt_data, "codec 'lzma' has other filters than LZMA1 for its format 'alone'"};
    }
  } else if (settings.format == lzma_format::raw) {
    return error{errc::corrupt_data, "codec 'lzma' needs the setting 'filters' for its format 'raw'"};
  } else {
    PENSTOCK_ASSIGN(settings.filters, filter_list::of_preset(static_cast<std::uint32_t>(preset), legacy));
  }
  if (settings.format == lzma_format::raw && lzma_raw_decoder_memusage(settings.filters->data()) > kDecoderMemory) {
    return error{errc::corrupt_data,
                 fmt::format("codec 'lzma' has filters that no decoder of {} bytes reads", kDecoderMemory)};
  }
  settings.description = fmt::format("lzma(format={}{})", kFormats[format],
                                     members.has("filters") ? "" : fmt::format(", preset={}", preset));
  return compressed_stage(std::make_shared<lzma_codec>(std::move(settings)), input);
}

}  // namespace penstock::inline v0
