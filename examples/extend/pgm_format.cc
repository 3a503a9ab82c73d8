// A format: grey images of Netpbm (`P5`), of 8 or 16 bits, which can be read, created and written in parts.
//
// Source: https://netpbm.sourceforge.net/doc/pgm.html. The file is a header in ASCII and the rows from top to bottom,
// 16 bits with the high byte first. There are no chunks: a cell is a strip of rows of about a MiB.

#include <penstock/extend/layout_base.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "extensions.h"

namespace ps = penstock;

namespace {

constexpr std::uint64_t kStripBytes = 1 << 20;

struct pgm_header {
  std::uint64_t width = 0, height = 0, highest = 0;
  std::uint64_t bytes = 0;  // of the header
  std::uint64_t pixel_bytes() const { return highest < 256 ? 1 : 2; }
  std::uint64_t row_bytes() const { return width * pixel_bytes(); }
};

std::string text_of(const pgm_header& of) {
  return "P5\n" + std::to_string(of.width) + " " + std::to_string(of.height) + "\n" + std::to_string(of.highest) + "\n";
}

// The numbers of a header, which may be comments apart. `begin` is from storage and holds anything.
ps::result<pgm_header> parse_header(std::string_view begin) {
  pgm_header out;
  std::size_t at = 2;
  for (std::uint64_t* const number : {&out.width, &out.height, &out.highest}) {
    while (at < begin.size() && (begin[at] == '#' || std::string_view(" \t\r\n").find(begin[at]) != begin.npos))
      at = begin[at] == '#' ? std::min(begin.find('\n', at), begin.size()) : at + 1;
    const auto [end, failed] = std::from_chars(begin.data() + at, begin.data() + begin.size(), *number);
    if (failed != std::errc() || *number == 0)
      return ps::error(ps::errc::corrupt_data, "a PGM header needs three positive numbers in its first " +
                                                   std::to_string(begin.size()) + " bytes");
    at = static_cast<std::size_t>(end - begin.data());
  }
  if (out.highest > 65535)
    return ps::error(ps::errc::corrupt_data,
                     "the highest value of a PGM is at most 65535, not " + std::to_string(out.highest));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // products of these stay within 64 bits
  if (out.width > kMost || out.height > (std::uint64_t{1} << 62) / out.row_bytes())
    return ps::error(ps::errc::corrupt_data,
                     "a PGM of " + std::to_string(out.width) + " x " + std::to_string(out.height) + " pixels");
  out.bytes = at + 1;  // one white space
  return out;
}

class pgm_layout final : public ps::layout_base, public ps::object_assembler {
 public:
  static ps::result<std::shared_ptr<const pgm_layout>> make(const ps::context& with, const pgm_header& header,
                                                            std::string key) {
    const std::uint64_t rows = std::clamp<std::uint64_t>(kStripBytes / header.row_bytes(), 1, header.height);
    std::vector<std::uint64_t> edges;
    for (std::uint64_t row = 0; row < header.height; row += rows) edges.push_back(row);
    edges.push_back(header.height);
    PENSTOCK_ASSIGN(ps::grid_axis y, ps::grid_axis::edges(header.height, std::move(edges)));
    const ps::grid_axis x = ps::grid_axis::uniform(header.width, header.width);
    // Strips of one length and, at the end, one that may be shorter.
    const std::uint64_t last = y.codec_length(y.cells() - 1);
    const std::string codecs = header.pixel_bytes() == 1 ? R"(["bytes"])" : R"([{"name": "bytes",
                               "configuration": {"endian": "big"}}])";
    const ps::cell_coding codings[] = {{{rows, header.width}, codecs}, {{last, header.width}, codecs}};
    PENSTOCK_ASSIGN(ps::chunk_grid cells, ps::chunk_grid::make({std::move(y), x}));
    const ps::extents shape{header.height, header.width};
    PENSTOCK_ASSIGN(ps::chunk_grid file, ps::chunk_grid::regular(shape, shape));
    PENSTOCK_ASSIGN(ps::layout_parts parts,
                    ps::layout_parts::make(with, type_of(header), std::move(cells), std::move(file), codings));
    return std::shared_ptr<const pgm_layout>(new pgm_layout(std::move(parts), header, rows, std::move(key)));
  }
  static ps::dtype type_of(const pgm_header& of) {
    return {ps::dtype_kind::unsigned_integer, static_cast<std::uint32_t>(8 * of.pixel_bytes())};
  }

  // Where the strips are is known without an index.
  ps::result<> locate(std::span<const ps::cell_id> cells, const ps::index_lookup&, std::span<ps::chunk_extent> out,
                      std::vector<ps::index_request>&) const override {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::uint64_t first = cells[i] * rows_, count = std::min(rows_, header_.height - first);
      out[i].state = ps::presence::present;
      out[i].chain = count == rows_ ? 0 : 1;
      out[i].object = 0;
      out[i].range = {header_.bytes + first * header_.row_bytes(), count * header_.row_bytes(), false};
    }
    return {};
  }
  void key(ps::object_id, std::string& out) const override { out = key_; }
  std::string describe(ps::cell_id cell) const override { return "strip " + std::to_string(cell); }

  // Writing: the file anew, of the strips that are given and those of the old file.
  const ps::object_assembler* assembler() const override { return this; }
  ps::result<> assemble(ps::object_id, const ps::part* old, std::span<const ps::new_cell> cells,
                        ps::assembled_object& out) const override {
    out.clear();
    const auto add = [&out](ps::part bytes) {
      out.parts.push_back(bytes);
      out.bytes += bytes.size();
    };
    const auto make_room = [&out](std::uint64_t bytes) { return out.make_room(static_cast<std::size_t>(bytes)); };
    const std::uint64_t strips = grid().cells();
    const std::uint64_t size = header_.bytes + header_.height * header_.row_bytes();
    if (old != nullptr && old->size() < size) return ps::error(ps::errc::corrupt_data, "the old PGM is cut off");
    std::vector<const ps::new_cell*> given(static_cast<std::size_t>(strips));
    for (const ps::new_cell& each : cells) given[static_cast<std::size_t>(each.cell)] = &each;
    if (old != nullptr) {
      add(old->first(static_cast<std::size_t>(header_.bytes)));
    } else {
      const std::string text = text_of(header_);
      const auto room = make_room(text.size());
      std::transform(text.begin(), text.end(), room.begin(), [](char c) { return static_cast<std::byte>(c); });
      add(room);
    }
    for (std::uint64_t i = 0; i < strips; ++i) {
      const ps::new_cell* const now = given[static_cast<std::size_t>(i)];
      const std::uint64_t first = i * rows_, bytes = std::min(rows_, header_.height - first) * header_.row_bytes();
      if (now != nullptr && !now->absent) {
        add(now->bytes);
      } else if (now == nullptr && old != nullptr) {
        add(old->subspan(static_cast<std::size_t>(header_.bytes + first * header_.row_bytes()),
                         static_cast<std::size_t>(bytes)));
      } else {  // the fill value, which is 0
        const auto room = make_room(bytes);
        std::fill(room.begin(), room.end(), std::byte{0});
        add(room);
      }
    }
    return {};
  }

 private:
  pgm_layout(ps::layout_parts parts, const pgm_header& header, std::uint64_t rows, std::string key)
      : layout_base(std::move(parts)), header_(header), rows_(rows), key_(std::move(key)) {}

  pgm_header header_;
  std::uint64_t rows_;  // of a strip
  std::string key_;
};

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
    PENSTOCK_ASSIGN(const pgm_header header, parse_header({reinterpret_cast<const char*>(begin.data()), begin.size()}));
    const std::uint64_t size = header.bytes + header.height * header.row_bytes();
    if (at.head->object_size != ps::byte_range::kAll && at.head->object_size < size)
      return ps::error(ps::errc::corrupt_data, "the PGM has " + std::to_string(at.head->object_size) +
                                                   " bytes, its header needs " + std::to_string(size));
    PENSTOCK_ASSIGN(auto layout, pgm_layout::make(*at.context, header, at.path));
    ps::array_description what;
    what.format = "pgm";
    what.shape = {header.height, header.width};
    what.type = pgm_layout::type_of(header);
    what.attributes_json = R"({"highest": )" + std::to_string(header.highest) + "}";
    what.dimension_names = {"y", "x"};
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
    PENSTOCK_ASSIGN(const pgm_header header,
                    parse_header(text_of({how.shape[1], how.shape[0], how.type.bits() == 8 ? 255U : 65535U})));
    PENSTOCK_ASSIGN(const auto layout, pgm_layout::make(*at.context, header, at.path));
    ps::assembled_object file;
    PENSTOCK_TRY(layout->assemble(0, nullptr, {}, file));
    PENSTOCK_TRY(ps::put_new_object(at, file.parts, how));
    return ps::open_new_object(at, *this);
  }
};

}  // namespace

std::shared_ptr<const ps::format_driver> pgm_format() { return std::make_shared<pgm_driver>(); }
