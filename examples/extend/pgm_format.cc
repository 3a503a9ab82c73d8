// A format: grey images of Netpbm (`P5`), of 8 or 16 bits, which can be read, created and written in parts.
//
// Source: https://netpbm.sourceforge.net/doc/pgm.html. The file is a header in ASCII and the rows from top to bottom,
// 16 bits with the high byte first.

#include <penstock/extend/contiguous_layout.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "extensions.h"

namespace ps = penstock;

namespace {

struct pgm_image {
  ps::contiguous_object file;
  std::uint64_t highest = 0;  // value
};

// The numbers of a header, which may be comments apart. `begin` is from storage and holds anything.
ps::result<pgm_image> parse_header(std::string_view begin) {
  std::array<std::uint64_t, 3> numbers{};  // width, height, highest value
  std::size_t at = 2;
  for (std::uint64_t& number : numbers) {
    while (at < begin.size() && (begin[at] == '#' || std::string_view(" \t\r\n").find(begin[at]) != begin.npos))
      at = begin[at] == '#' ? std::min(begin.find('\n', at), begin.size()) : at + 1;
    const auto [end, failed] = std::from_chars(begin.data() + at, begin.data() + begin.size(), number);
    if (failed != std::errc() || number == 0 || end == begin.data() + begin.size())
      return ps::error(ps::errc::corrupt_data, "a PGM header needs three positive numbers in its first " +
                                                   std::to_string(begin.size()) + " bytes");
    at = static_cast<std::size_t>(end - begin.data());
  }
  pgm_image out;
  out.highest = numbers[2];
  if (out.highest > 65535)
    return ps::error(ps::errc::corrupt_data,
                     "the highest value of a PGM is at most 65535, not " + std::to_string(out.highest));
  const auto header = std::as_bytes(std::span(begin.substr(0, at + 1)));  // one white space ends it
  out.file.header.assign(header.begin(), header.end());
  out.file.shape = {numbers[1], numbers[0]};
  out.file.type = {ps::dtype_kind::unsigned_integer, out.highest < 256 ? 8U : 16U};
  out.file.big_endian = true;
  return out;
}

ps::error cannot(const std::string& option, const std::string& why) {
  return {ps::errc::invalid_argument, "a PGM cannot have this " + option + ": " + why};
}

class pgm_driver final : public ps::format_driver {
 public:
  std::string_view name() const noexcept override { return "pgm"; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 1> kEndings = {"pgm"};
    return kEndings;
  }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return begin.size() > 2 && begin[0] == std::byte{'P'} && begin[1] == std::byte{'5'};
  }

  ps::result<ps::node> open(const ps::location& at, const ps::open_options& how) const override {
    const std::vector<std::byte>& begin = at.head->bytes;
    PENSTOCK_ASSIGN(pgm_image image, parse_header({reinterpret_cast<const char*>(begin.data()), begin.size()}));
    image.file.key = at.path;
    image.file.bytes = at.head->object_size;
    ps::array_description what;
    what.format = "pgm";
    what.shape = image.file.shape;
    what.type = image.file.type;
    what.attributes_json = R"({"highest": )" + std::to_string(image.highest) + "}";
    what.dimension_names = {"y", "x"};
    PENSTOCK_ASSIGN(auto layout, ps::make_contiguous_layout(std::move(image.file)));
    PENSTOCK_ASSIGN(ps::array made, ps::make_array(at, std::move(layout), std::move(what), how));
    return ps::node(std::move(made));
  }

  ps::result<ps::array> create(const ps::new_location& at, const ps::create_options& how) const override {
    if (how.shape.size() != 2) return cannot("shape", ps::to_string(how.shape) + " is not that of a grey image");
    const bool grey =
        how.type.kind() == ps::dtype_kind::unsigned_integer && (how.type.bits() == 8 || how.type.bits() == 16);
    if (!grey) return cannot("dtype", how.type.name() + " is neither uint8 nor uint16");
    if (!how.codecs_json.empty() || how.chunks || how.shards) return cannot("chunks or codecs", "it has none");
    if (!how.attributes_json.empty()) return cannot("attributes", "it has none");
    PENSTOCK_ASSIGN(pgm_image image,
                    parse_header("P5\n" + std::to_string(how.shape[1]) + " " + std::to_string(how.shape[0]) + "\n" +
                                 (how.type.bits() == 8 ? "255" : "65535") + "\n"));
    PENSTOCK_ASSIGN(const auto layout, ps::make_contiguous_layout(std::move(image.file)));
    ps::assembled_object file;
    PENSTOCK_TRY(layout->assembler()->assemble(0, nullptr, {}, file));
    PENSTOCK_TRY(ps::put_new_object(at, file.parts, how));
    return ps::open_new_object(at, *this);
  }
};

}  // namespace

std::shared_ptr<const ps::format_driver> pgm_format() { return std::make_shared<pgm_driver>(); }
