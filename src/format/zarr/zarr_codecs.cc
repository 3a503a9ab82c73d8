#include "format/zarr/zarr_codecs.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/counted.h"
#include "format/zarr/metadata_reader.h"

namespace penstock::inline v0 {
namespace {

/// Each codec of a chain may process all of the data: without a bound a small document could take hours.
constexpr std::size_t kMaxCodecs = 64;

result<std::vector<codec_config>> parse_plain_list(const json& value, std::string_view path) {
  const json::array_t* list = value.as_array();
  if (list == nullptr) return wrong_member(value, path, "a list of codecs");
  if (list->empty()) {
    return error(errc::corrupt_data, fmt::format("zarr.json: member '{}' is empty, needs at least one codec", path));
  }
  if (list->size() > kMaxCodecs) {
    return error(errc::unsupported, fmt::format("zarr.json: member '{}' has {} codecs, at most {} are supported", path,
                                                list->size(), kMaxCodecs));
  }
  std::vector<codec_config> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    PENSTOCK_ASSIGN(codec_config codec, read_named((*list)[i], fmt::format("{}[{}]", path, i)));
    out.push_back(std::move(codec));
  }
  return out;
}

}  // namespace

// Recursion ends: the JSON parser bounds how deep a document nests.
result<std::shared_ptr<const zarr_shard>> parse_zarr_shard(const json& configuration, const std::string& path) {
  PENSTOCK_TRY(only_members(configuration, path, {"chunk_shape", "codecs", "index_codecs", "index_location"}));
  auto out = std::make_shared<zarr_shard>();
  out->configuration = configuration;

  PENSTOCK_ASSIGN(const json* chunk, required_member(configuration, path, "chunk_shape"));
  PENSTOCK_ASSIGN(out->chunk, read_extents(*chunk, path + ".chunk_shape", 1));
  PENSTOCK_ASSIGN(const json* codecs, required_member(configuration, path, "codecs"));
  PENSTOCK_ASSIGN(out->codecs, parse_zarr_codecs(*codecs, path + ".codecs"));
  PENSTOCK_ASSIGN(const json* index_codecs, required_member(configuration, path, "index_codecs"));
  PENSTOCK_ASSIGN(out->index_codecs, parse_plain_list(*index_codecs, path + ".index_codecs"));

  if (const json* location = configuration.find("index_location")) {
    const std::string* text = location->as_string();
    if (text == nullptr) return wrong_member(*location, path + ".index_location", "\"start\" or \"end\"");
    if (*text != "start" && *text != "end") {
      return error(errc::corrupt_data,
                   fmt::format("zarr.json: member '{}.index_location' is {}, needs \"start\" or \"end\"", path,
                               brief(*location)));
    }
    out->index_at_start = *text == "start";
  }
  return std::shared_ptr<const zarr_shard>(std::move(out));
}

result<zarr_codecs> parse_zarr_codecs(const json& list, std::string_view path) {
  PENSTOCK_ASSIGN(std::vector<codec_config> all, parse_plain_list(list, path));
  zarr_codecs out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name != "sharding_indexed") {
      (out.shard ? out.behind : out.chain).push_back(std::move(all[i]));
      continue;
    }
    if (out.shard) {
      return error(errc::corrupt_data,
                   fmt::format("zarr.json: member '{}' has two array-to-bytes codecs, needs one", path));
    }
    PENSTOCK_ASSIGN(out.shard, parse_zarr_shard(all[i].configuration, fmt::format("{}[{}].configuration", path, i)));
  }
  return out;
}

result<std::vector<codec_config>> whole_chain(const zarr_codecs& list, std::size_t rank) {
  std::vector<codec_config> out = list.chain;
  for (codec_config& codec : out) {
    const json* order = codec.configuration.find("order");
    if (codec.name != "transpose" || order == nullptr || order->as_string() == nullptr) continue;
    PENSTOCK_ASSIGN(const auto axes, parse_transpose_order(codec, rank));
    codec.configuration = json::object_t{{"order", json::array_t(axes.begin(), axes.end())}};
  }
  if (list.shard != nullptr) out.push_back({"sharding_indexed", list.shard->configuration});
  out.insert(out.end(), list.behind.begin(), list.behind.end());
  return out;
}

result<dim_vector<std::uint64_t>> parse_transpose_order(const codec_config& codec, std::size_t rank) {
  const json* order = codec.configuration.find("order");
  if (order == nullptr) return error(errc::corrupt_data, "codec transpose has no 'order'");

  dim_vector<std::uint64_t> out(rank);
  if (const std::string* text = order->as_string(); text != nullptr && (*text == "C" || *text == "F")) {
    for (std::size_t i = 0; i < rank; ++i) out[i] = *text == "C" ? i : rank - 1 - i;
    return out;
  }
  const auto refuse = [&] {
    return error(errc::corrupt_data, fmt::format("codec transpose has order {}, needs a permutation of {}",
                                                 brief(*order), counted(rank, "dimension")));
  };
  const json::array_t* list = order->as_array();
  if (list == nullptr || list->size() != rank) return refuse();
  dim_vector<bool> seen(rank, false);
  for (std::size_t i = 0; i < rank; ++i) {
    std::uint64_t d = 0;
    if (!(*list)[i].get(d) || d >= rank || seen[d]) return refuse();
    seen[d] = true;
    out[i] = d;
  }
  return out;
}

}  // namespace penstock::inline v0
