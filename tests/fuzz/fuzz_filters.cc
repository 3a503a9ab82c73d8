// The filters of codec/filter_fixture.h, by the first byte; the second chooses the length. The rest is decoded as a
// hostile chunk, and encoded as a cell's content, whose decoding must succeed, and return the content if the
// filter is lossless.

#include "codec/filter_fixture.h"
#include "codec_fuzz.h"

using namespace penstock;

extern "C" int run_filters(const std::uint8_t* data, std::size_t size) {
  fuzz_input input(data, size);
  const filter_row& chosen = kFilterRows[input.below(std::size(kFilterRows))];
  const dtype type = dtype::from_name(chosen.type).value();
  const extents cell = {input.byte() * 3 + 1};
  const auto chain = compile_filter(chosen, cell[0]);
  if (!chain.ok() && chain.error().to_string().find("libzfp") != std::string::npos) return 0;
  require(chain.ok() && !chain->describe().empty());
  ledger accounts(std::uint64_t{64} << 20, 0);
  worker_scratch scratch(&accounts);
  const auto decode = [&](std::span<const std::byte> encoded, std::byte* out) {
    return chain->decode(encoded, {out, c_order_strides(cell, type.item_bytes()), nullptr, true}, scratch);
  };

  const std::span<const std::byte> rest = input.rest();
  const auto out = std::make_unique<std::byte[]>(chain->decoded_bytes());
  const auto hostile = std::make_unique<std::byte[]>(rest.size());
  if (!rest.empty()) std::memcpy(hostile.get(), rest.data(), rest.size());
  const auto refused = decode({hostile.get(), rest.size()}, out.get());
  require(refused.ok() || refused.error().code() == errc::corrupt_data || refused.error().code() == errc::unsupported);

  std::vector<std::byte> content(chain->decoded_bytes());
  for (std::size_t i = 0; i < content.size() && !rest.empty(); ++i) content[i] = rest[i % rest.size()];
  buffer room;
  const auto made = chain->encode(tensor_view::contiguous(content.data(), type, cell), room, scratch);
  require(made.ok() || made.error().code() == errc::invalid_argument);
  if (!made.ok()) return 0;
  const auto back = decode(*made, out.get());
  require(back.ok() || (!chosen.promise.lossless && back.error().code() == errc::corrupt_data));
  require(!chosen.promise.lossless || std::memcmp(out.get(), content.data(), content.size()) == 0);
  return 0;
}
