#pragma once

#include <penstock/dtype.h>
#include <penstock/shape.h>

#include <string_view>

#include <penstock/extend/json.h>
#include "format/zarr/zarr_metadata.h"

namespace penstock::inline v0 {

/// What a new array gets where its maker does not say.

/// Chunks of about 1 MiB: the longest dimension is halved until that is reached.
extents default_chunks(const extents& shape, std::uint64_t item_bytes);

/// Shards of about 256 MiB: whole chunks, the last dimensions first, so that a shard is as near to contiguous as can
/// be.
extents default_shards(const extents& shape, const extents& chunks, std::uint64_t item_bytes);

/// The codec that makes bytes of arrays: `bytes`, `vlen-utf8`, `vlen-bytes`.
json default_serializer(const dtype& type, std::string_view endian);

/// Whether the first bytes of items are more alike than their last ones: floats and times. Measured on a smooth field
/// with noise: zstd alone 1.25 : 1, behind a shuffle 1.80 : 1, at the same speed; labels lose by it.
bool shuffle_pays(const dtype& type) noexcept;

/// What compresses the bytes: zstd, within blosc where a shuffle pays.
json::array_t default_compressors(const dtype& type);
json default_v2_compressor(const dtype& type);

/// A codec given by its name alone, with settings: version 3 has no defaults of its own.
json with_default_settings(const json& codec, const dtype& type);

/// The fill value: zeros, and NaT for times.
std::vector<std::byte> default_fill(const dtype& type);

/// Whether a codec of that name takes arrays and gives bytes, or takes and gives arrays.
bool makes_bytes_of_arrays(std::string_view name) noexcept;
bool keeps_arrays(std::string_view name) noexcept;

}  // namespace penstock::inline v0
