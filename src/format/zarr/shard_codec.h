#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "codec/byte_codecs.h"
#include "codec/codec_chain.h"
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

/// Makes `sharding_indexed` as a codec of a chain, for shards whose stored bytes do not match the offsets in their
/// index because other codecs follow: such a shard is one cell, decoded in memory. All other codecs are requested from
/// `others`.
class shard_codecs final : public codec_provider {
 public:
  /// \param metadata  Of the array whose chain it is: absent chunks of a shard have its fill value.
  /// \param others  May be null. Borrowed, like this object, while a chain is compiled.
  shard_codecs(const zarr_metadata& metadata, const codec_provider* others);

  /// The same for the shard of `list`, with the array's fill value as encoded by the codecs before it.
  /// \error unsupported  Another codec than transpose, scale_offset or cast_value before a shard.
  result<shard_codecs> behind(const zarr_codecs& list) const;

  /// \error corrupt_data  A chunk shape that does not divide the shard's; no array at that position of the list.
  /// \error unsupported  As for other codecs.
  result<compiled_codec> make(const codec_config& config, const stage_type& input) const override;

 private:
  dtype type_;
  std::vector<std::byte> fill_value_;
  std::shared_ptr<const std::string> fill_text_;
  const codec_provider* others_;
};

}  // namespace penstock::inline v0
