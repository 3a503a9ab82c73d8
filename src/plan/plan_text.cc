#include "plan/plan_text.h"

#include <fmt/format.h>

#include <iterator>

#include "base/counted.h"
#include "codec/codec_chain.h"

namespace penstock::inline v0 {

void add(plan_totals& totals, const read_plan& plan, std::span<const source> sources) {
  const auto chains = sources[plan.source].layout->chains();
  for (const fetch_op& op : plan.fetches) {
    totals.filled += op.fill_count;
    totals.cells += op.fill_count + op.decode_count;
    if (op.what == request::check) ++totals.checks;
    if (op.what != request::data && op.what != request::object) continue;
    ++totals.requests;
    totals.in_place += op.in_place;
    if (op.range.whole()) {
      ++totals.whole_objects;
    } else {
      totals.fetched_bytes += op.range.length;
    }
    for (std::uint32_t i = 0; i < op.decode_count; ++i) {
      const decode_op& decode = plan.decodes[op.first_decode + i];
      ++(decode.direct ? totals.direct : totals.scattered);
      totals.decoded_bytes += decode.part ? decode.length : chains[decode.chain].decoded_bytes();
    }
  }
}

void append_text(std::string& out, const read_plan& plan, std::span<const source> sources, std::size_t& lines_left) {
  const chunk_layout& layout = *sources[plan.source].layout;
  const auto line = [&](const std::string& text) {
    if (lines_left == 0) return;
    --lines_left;
    out.append(text).push_back('\n');
  };
  for (const fetch_op& op : plan.fetches) {
    if (lines_left == 0) return;
    const std::string& key = plan.objects[op.object].key;
    const std::string range = (op.range.whole() ? "" : "bytes ") + to_string(op.range);
    switch (op.what) {
      case request::data:
        line(fmt::format("fetch '{}', {}: {}{}", key, range, counted(op.decode_count, "cell"),
                         op.in_place ? ", straight into the result" : ""));
        break;
      case request::object:
        line(fmt::format("fetch '{}', {}: {}, by the index in it", key, range, counted(op.decode_count, "cell")));
        break;
      case request::check:
        line(fmt::format("check '{}' is unchanged: {}", key, counted(op.fill_count, "cell")));
        break;
      case request::none:
        break;
    }
    for (std::uint32_t i = 0; i < op.decode_count && lines_left != 0; ++i) {
      const decode_op& decode = plan.decodes[op.first_decode + i];
      const std::string from = decode.length == byte_range::kAll
                                   ? std::string("all")
                                   : fmt::format("[{}, {})", decode.offset, decode.offset + decode.length);
      line(fmt::format("  decode {} from {}, {}", layout.describe(decode.cell), from,
                       decode.direct ? "direct" : "scatter"));
    }
    for (std::uint32_t i = 0; i < op.fill_count && lines_left != 0; ++i)
      line(fmt::format("{}fill {}", op.what == request::none ? "" : "  ",
                       layout.describe(plan.fills[op.first_fill + i].cell)));
  }
}

}  // namespace penstock::inline v0
