// The first bytes choose codec and shape; the rest is decoded as a hostile chunk of items, and items made of it are
// encoded and decoded again.

#include "codec_fuzz.h"

#include <penstock/variable.h>

namespace {

using namespace penstock;

std::vector<variable_item> decode(const codec_chain& chain, std::span<const std::byte> encoded, worker_scratch& scratch,
                                  bool& ok) {
  const auto copy = std::make_unique<std::byte[]>(encoded.size());
  if (!encoded.empty()) std::memcpy(copy.get(), encoded.data(), encoded.size());
  std::vector<variable_item> items(chain.decoded_bytes() / sizeof(variable_item));
  decode_target target;
  target.data = reinterpret_cast<std::byte*>(items.data());
  target.strides = c_order_strides(chain.cell(), sizeof(variable_item));
  target.covers_cell = true;
  const auto done = chain.decode({copy.get(), encoded.size()}, target, scratch);
  ok = done.ok();
  require(ok || done.error().code() == errc::corrupt_data || done.error().code() == errc::resource_exhausted);
  return items;
}

}  // namespace

extern "C" int run_vlen(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  constexpr unsigned kText = 0, kBytes = 1, kLists = 2, kNested = 3;
  const auto kind = static_cast<unsigned>(input.below(4));
  const extents cell = {input.below(5) + 1, input.below(4)};
  std::vector<codec_config> codecs;
  if (input.below(2) == 0) {
    codecs.push_back({"transpose", json(json::object_t{{"order", json::array_t{std::int64_t{1}, std::int64_t{0}}}})});
  }
  constexpr std::size_t kItemBytes = 2;
  const json items_of_lists(json::object_t{{"dtype", input.below(2) == 0 ? "<i2" : ">i2"}});
  // Lists of lists of text, or of numbers.
  const bool of_text = kind == kNested && input.below(2) == 0;
  json inner(json::object_t{{"id", "vlen-utf8"}});
  if (!of_text) inner = json(json::object_t{{"id", "vlen-array"}, {"dtype", ">i2"}});
  const json items_of_nested(
      json::object_t{{"dtype", json::object_t{{"id", "vlen-array"}, {"dtype", std::move(inner)}}}});
  codecs.push_back({kind == kText    ? "vlen-utf8"
                    : kind == kBytes ? "vlen-bytes"
                                     : "vlen-array",
                    kind == kLists    ? items_of_lists
                    : kind == kNested ? items_of_nested
                                      : json()});
  if (input.below(3) == 0) codecs.push_back({"zstd", json(json::object_t{{"level", std::int64_t{1}}})});
  const dtype int16s = dtype::variable_list(dtype(dtype_kind::signed_integer, 16)).value();
  const dtype texts = dtype::variable_list(dtype::variable_utf8()).value(),
              lists = dtype::variable_list(int16s).value();
  const dtype type = kind == kText    ? dtype::variable_utf8()
                     : kind == kBytes ? dtype::variable_bytes()
                     : kind == kLists ? int16s
                                      : dtype::variable_list(of_text ? texts : lists).value();
  const codec_chain chain = codec_chain::compile(codecs, type, cell).value();

  ledger accounts(std::uint64_t{64} << 20, 0);
  worker_scratch scratch(&accounts);
  item_arena arena;
  scratch.arena = &arena;
  const std::span<const std::byte> rest = input.rest();
  bool ok = false;
  auto hostile = decode(chain, rest, scratch, ok);
  if (ok) {
    for (const variable_item& item : hostile) {
      std::vector<std::byte> read(item.data, item.data + item.size);  // every byte of the output may be written
    }
  }

  if (kind == kNested) {  // what was decoded is encoded again
    if (!ok) return 0;
    buffer room(&accounts);
    const auto made = chain.encode(tensor_view::contiguous(hostile.data(), chain.type(), cell), room, scratch);
    require(made.ok());
    const auto back = decode(chain, *made, scratch, ok);
    require(ok);
    for (std::size_t i = 0; i < hostile.size(); ++i) require(back[i].text() == hostile[i].text());
    return 0;
  }

  // Items of plain letters are text too.
  std::vector<std::byte> letters(rest.begin(), rest.end());
  for (std::byte& each : letters) each &= std::byte{0x7f};
  std::vector<variable_item> items(chain.decoded_bytes() / sizeof(variable_item));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t begin = letters.size() * i / items.size(), end = letters.size() * (i + 1) / items.size();
    items[i] = {letters.data() + begin, kind == kLists ? (end - begin) / kItemBytes * kItemBytes : end - begin};
  }
  buffer room(&accounts);
  const auto made = chain.encode(tensor_view::contiguous(items.data(), chain.type(), cell), room, scratch);
  require(made.ok());
  const auto back = decode(chain, *made, scratch, ok);
  require(ok);
  for (std::size_t i = 0; i < items.size(); ++i) require(back[i].text() == items[i].text());
  return 0;
}
