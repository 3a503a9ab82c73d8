#pragma once

// Creates device steps: from a compiled codec, and from metadata (names and settings of codecs).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <penstock/result.h>

#include <penstock/extend/json.h>
#include "codec/device_form.h"
#include "cuda/decode/wave.h"

namespace penstock::inline v0::device {

/// The step that decodes a codec with this form; nullopt if the device has no decoder for its settings.
std::optional<device_step> step_of(const device_form& form);

/// The steps, in decoding order, of codecs as Zarr and numcodecs write them: a list of names, of `{"name": ...,
/// "configuration": {...}}` and of `{"id": ..., ...}`, in encoding order; or one of these alone.
///
/// The compressors of `step_of_codec`, and `shuffle`, `bitshuffle` and `byte_swap` (`elementsize`), `hdf5.bitshuffle`
/// (`elementsize`, `blocksize`, `compression`), `delta` (`dtype`, `astype`: type strings of integers), `crc32c`,
/// `reverse_bits`, and `tiff_predictor` (`predictor` 1, 2 or 3, `rows`, `width`, `samples`, `elementsize`, `endian`).
/// \error unsupported  No device decoder has this name or these settings. \error invalid_argument  A bad setting.
result<std::vector<device_step>> steps_of_codecs(const json& codecs, std::span<const std::byte> encoded,
                                                 std::uint64_t decoded_bytes);

}  // namespace penstock::inline v0::device
