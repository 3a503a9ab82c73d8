#pragma once

// Steps of the device from what metadata says: names and settings of codecs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <penstock/result.h>

#include "base/json.h"
#include "cuda/decode/wave.h"

namespace penstock::inline v0::device {

/// HDF5's bitshuffle, and shuffle; nullopt for other names, and where no device takes such settings.
/// \param item_bytes  Of shuffle, where the settings do not say it; 0: it is not known.
std::optional<device_step> step_of_settings(std::string_view name, const json& settings, std::uint64_t item_bytes);

/// The steps, in decoding order, of codecs as Zarr and numcodecs write them: a list of names, of `{"name": ...,
/// "configuration": {...}}` and of `{"id": ..., ...}`, in encoding order; or one of these alone.
///
/// The compressors of `step_of_codec`, and `shuffle`, `bitshuffle` and `byte_swap` (`elementsize`), `hdf5.bitshuffle`
/// (`elementsize`, `blocksize`, `compression`), `delta` (`dtype`, `astype`: type strings of integers), `crc32c`,
/// `reverse_bits`, and `tiff_predictor` (`predictor` 1, 2 or 3, `rows`, `width`, `samples`, `elementsize`, `endian`).
/// \error unsupported  No device decoder has this name, or takes these settings. \error invalid_argument  A setting.
result<std::vector<device_step>> steps_of_codecs(const json& codecs, std::span<const std::byte> encoded,
                                                 std::uint64_t decoded_bytes);

}  // namespace penstock::inline v0::device
