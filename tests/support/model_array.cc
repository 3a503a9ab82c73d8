#include "support/model_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>

#include <penstock/extend/json.h>
#include "base/buffer.h"
#include "codec/codec_chain.h"

namespace penstock::test {
namespace {

using bytes = std::vector<std::byte>;

void require(const auto& outcome) {
  if (!outcome.ok()) throw std::runtime_error(outcome.error().to_string());
}

std::string list(const extents& shape) {
  std::string out = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) out += fmt::format("{}{}", d ? "," : "", shape[d]);
  return out + "]";
}

extents divide_up(const extents& a, const extents& b) {
  extents out = a;
  for (std::size_t d = 0; d < a.size(); ++d) out[d] = (a[d] + b[d] - 1) / b[d];
  return out;
}

class writer {
 public:
  writer(model_array& model, std::uint64_t seed) : model_(model), random_(seed) {
    const auto parsed = json::parse(model.options.codecs);
    require(parsed);
    for (const json& each : *parsed->as_array()) {
      const json* settings = each.find("configuration");
      codecs_.push_back({*each.find("name")->as_string(), settings ? *settings : json()});
    }
    type_ = *dtype::from_name(model.options.dtype);
    auto chain = codec_chain::compile(codecs_, type_, model.options.chunks);
    require(chain);
    chain_.emplace(std::move(*chain));
    const std::vector<codec_config> index{{"bytes", json(json::object_t{{"endian", "little"}})}, {"crc32c", json()}};
    index_codecs_ = index;
  }

  // In a buffer that is reused: sanitizers are slow for each byte of a new one.
  bytes encoded(const codec_chain& chain, const tensor_view& cell) {
    const auto out = chain.encode(cell, room_, scratch_);
    require(out);
    return bytes(out->begin(), out->end());
  }

  // One chunk's encoded bytes; nothing if it is missing.
  std::optional<bytes> chunk(const extents& origin) {
    const extents& shape = model_.options.shape;
    if (std::uniform_real_distribution<>(0, 1)(random_) < model_.options.missing) return std::nullopt;
    bytes raw(element_product(model_.options.chunks) * model_.item_bytes);
    // Eight bytes from each random number, row by row: tests write hundreds of MiB in this way, also under sanitizers.
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < raw.size(); ++i, number >>= 8) {
      if (i % 8 == 0) number = random_();
      raw[i] = static_cast<std::byte>(model_.options.least + (number & 0xFF) % model_.options.values);
    }
    extents rows = model_.options.chunks;
    std::uint64_t row_items = 1;
    if (!rows.empty()) {
      const std::size_t last = rows.size() - 1;
      if (origin[last] < shape[last]) row_items = std::min(rows[last], shape[last] - origin[last]);
      rows[last] = 1;
    }
    for_each_position(rows, [&](const extents& at) {
      extents where = at;
      bool inside = true;
      for (std::size_t d = 0; d < at.size(); ++d) inside = (where[d] += origin[d]) < shape[d] && inside;
      if (inside)
        std::memcpy(model_.values.data() + flat_number(where, shape) * model_.item_bytes,
                    raw.data() + flat_number(at, model_.options.chunks) * model_.item_bytes,
                    row_items * model_.item_bytes);
    });
    return encoded(*chain_, tensor_view::contiguous(raw.data(), type_, model_.options.chunks));
  }

  // A shard whose entries `entry` returns; nothing if all of them are missing.
  std::optional<bytes> shard(const extents& origin, const extents& shape, const extents& inner,
                             const std::function<std::optional<bytes>(const extents&)>& entry) {
    const extents entries = divide_up(shape, inner);
    std::vector<std::uint64_t> index;
    bytes data;
    const std::uint64_t index_bytes = element_product(entries) * 16 + 4;
    const std::uint64_t first = model_.options.index_at_start ? index_bytes : 0;
    bool any = false;
    for_each_position(entries, [&](const extents& at) {
      extents where = origin;
      for (std::size_t d = 0; d < at.size(); ++d) where[d] += at[d] * inner[d];
      const auto encoded = entry(where);
      if (!encoded) {
        index.push_back(~std::uint64_t{0});
        index.push_back(~std::uint64_t{0});
        return;
      }
      any = true;
      if (random_() % 4 == 0) data.resize(data.size() + random_() % 9);  // gaps are valid
      index.push_back(first + data.size());
      index.push_back(encoded->size());
      data.insert(data.end(), encoded->begin(), encoded->end());
    });
    if (!any) return std::nullopt;
    extents index_shape = entries;
    index_shape.push_back(2);
    auto chain = codec_chain::compile(index_codecs_, *dtype::from_name("uint64"), index_shape);
    require(chain);
    const bytes indexed = encoded(*chain, tensor_view::contiguous(index.data(), chain->type(), index_shape));
    data.insert(model_.options.index_at_start ? data.begin() : data.end(), indexed.begin(), indexed.end());
    return data;
  }

  std::optional<bytes> object(const extents& origin) {
    const model_options& o = model_.options;
    const auto leaf = [&](const extents& at) { return chunk(at); };
    if (!o.shards) return chunk(origin);
    if (!o.inner_shards) return shard(origin, *o.shards, o.chunks, leaf);
    return shard(origin, *o.shards, *o.inner_shards,
                 [&](const extents& at) { return shard(at, *o.inner_shards, o.chunks, leaf); });
  }

 private:
  model_array& model_;
  std::mt19937_64 random_;
  std::vector<codec_config> codecs_, index_codecs_;
  dtype type_;
  std::optional<codec_chain> chain_;
  worker_scratch scratch_;
  buffer room_;
};

std::string sharding(const extents& inner, const std::string& codecs, bool at_start) {
  return fmt::format(R"([{{"name":"sharding_indexed","configuration":{{"chunk_shape":{},"codecs":{},)"
                     R"("index_codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}},{{"name":"crc32c"}}],)"
                     R"("index_location":"{}"}}}}])",
                     list(inner), codecs, at_start ? "start" : "end");
}

const char* zero_of(const std::string& dtype) {
  if (dtype == "bool") return "false";
  return dtype.substr(0, 7) == "complex" ? "[0, 0]" : "0";
}

}  // namespace

model_array write_model(penstock::store& to, const std::string& prefix, const model_options& options) {
  model_array out;
  out.options = options;
  out.item_bytes = dtype::from_name(options.dtype)->item_bytes();
  out.values.resize(element_product(options.shape) * out.item_bytes);

  std::string codecs = options.codecs;
  const extents* outer = &options.chunks;
  if (options.shards) {
    if (options.inner_shards) codecs = sharding(options.chunks, codecs, options.index_at_start);
    codecs = sharding(options.inner_shards ? *options.inner_shards : options.chunks, codecs, options.index_at_start);
    outer = &*options.shards;
  }
  const std::string document = fmt::format(
      R"({{"zarr_format":3,"node_type":"array","shape":{},"data_type":"{}","chunk_grid":{{"name":"regular",)"
      R"("configuration":{{"chunk_shape":{}}}}},"chunk_key_encoding":{{"name":"default"}},"fill_value":{},"codecs":{}}})",
      list(options.shape), options.dtype, list(*outer), zero_of(options.dtype), codecs);

  writer write(out, options.seed);
  for_each_position(divide_up(options.shape, *outer), [&](const extents& at) {
    extents origin = at;
    std::string key = prefix + "c";
    for (std::size_t d = 0; d < at.size(); ++d) {
      origin[d] *= (*outer)[d];
      key += fmt::format("/{}", at[d]);
    }
    if (const auto object = write.object(origin)) {
      const part whole(*object);
      require(to.put(key, {&whole, 1}, {}));
    }
  });
  const part text(reinterpret_cast<const std::byte*>(document.data()), document.size());
  require(to.put(prefix + "zarr.json", {&text, 1}, {}));
  return out;
}

std::vector<std::byte> model_array::select(const resolved_basic& which) const {
  extents counts(which.from.size());
  for (std::size_t d = 0; d < counts.size(); ++d) counts[d] = which.from[d].count;
  std::vector<std::byte> out;
  for_each_position(counts, [&](const extents& at) {
    extents where(at.size());
    for (std::size_t d = 0; d < at.size(); ++d) where[d] = static_cast<std::uint64_t>(which.from[d].at(at[d]));
    const std::byte* item = values.data() + flat_number(where, options.shape) * item_bytes;
    out.insert(out.end(), item, item + item_bytes);
  });
  return out;
}

void model_array::assign(const resolved_basic& which, const std::vector<std::byte>& items) {
  extents counts(which.from.size());
  for (std::size_t d = 0; d < counts.size(); ++d) counts[d] = which.from[d].count;
  const std::byte* item = items.data();
  for_each_position(counts, [&](const extents& at) {
    extents where(at.size());
    for (std::size_t d = 0; d < at.size(); ++d) where[d] = static_cast<std::uint64_t>(which.from[d].at(at[d]));
    std::memcpy(values.data() + flat_number(where, options.shape) * item_bytes, item, item_bytes);
    item += item_bytes;
  });
}

std::vector<std::byte> model_array::select(const selection& which) const {
  std::vector<std::byte> out;
  for (const std::uint64_t each :
       selected_elements(which, options.shape, options.shards ? *options.shards : options.chunks)) {
    const std::byte* item = values.data() + each * item_bytes;
    out.insert(out.end(), item, item + item_bytes);
  }
  return out;
}

void model_array::assign(const selection& which, const std::vector<std::byte>& items) {
  const std::byte* item = items.data();
  for (const std::uint64_t each :
       selected_elements(which, options.shape, options.shards ? *options.shards : options.chunks)) {
    std::memcpy(values.data() + each * item_bytes, item, item_bytes);
    item += item_bytes;
  }
}

model_options random_model(std::mt19937_64& random) {
  static constexpr std::uint64_t kSizes[] = {1, 2, 3, 5, 7, 11, 13};
  static const char* const kTypes[] = {"bool", "int8", "uint16", "int32", "float32", "float64", "complex128"};
  static const char* const kCodecs[] = {
      R"([{"name":"bytes","configuration":{"endian":"little"}}])",
      R"([{"name":"bytes","configuration":{"endian":"big"}}])",
      R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}}])",
      R"([{"name":"bytes","configuration":{"endian":"big"}},{"name":"gzip","configuration":{"level":1}},{"name":"crc32c"}])",
  };
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  model_options out;
  const std::size_t rank = pick(5);
  out.shape.resize(rank);
  out.chunks.resize(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    out.shape[d] = pick(12) == 0 ? 0 : kSizes[pick(7)];
    out.chunks[d] = 1 + pick(4);
  }
  if (pick(3) != 0) {
    const bool nested = pick(3) == 0;
    extents shard = out.chunks;
    for (std::size_t d = 0; d < rank; ++d) shard[d] *= 1 + pick(3);
    if (nested) {
      out.inner_shards = shard;
      for (std::size_t d = 0; d < rank; ++d) shard[d] *= 1 + pick(2);
    }
    out.shards = shard;
  }
  out.dtype = kTypes[pick(7)];
  out.codecs = kCodecs[pick(4)];
  out.index_at_start = pick(2) == 0;
  out.missing = pick(3) == 0 ? 0.4 : 0;
  out.seed = random();
  return out;
}

}  // namespace penstock::test
