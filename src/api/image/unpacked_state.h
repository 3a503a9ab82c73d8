#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <penstock/georeference.h>
#include <penstock/unpack.h>
#include "api/image/valid_pixels.h"
#include "array/conversion.h"
#include "array/unpack_items.h"

namespace penstock::inline v0 {

/// One image of a mask that is being read: its axes are the selection's, except for one band.
struct mask_read {
  std::vector<std::byte> values;
  ticket reading;
};

/// How the bands of an image are unpacked. Immutable after `unpacked_image::make`.
struct unpacked_state {
  explicit unpacked_state(const array& of) : image(of), type(of.type()), by_mask(of.type(), 0, std::nullopt) {}

  array image;
  dtype type;
  bool masked = true;
  std::optional<std::size_t> band_axis;  ///< nullopt: one band, without an axis
  conversion how;
  std::vector<number_unpacking> bands;
  bool alike = true;     ///< all bands are converted in one way
  valid_pixels by_mask;  ///< masks only: nodata is compared while values are copied
  pixel_validity validity;
  std::vector<std::byte> nan;

  result<> set_bands();
  result<> check(const extents& shape, const tensor_view& out) const;
  element_conversion conversion_for(const resolved_basic& which) const;
  result<> start_masks(const resolved_basic& which, unsigned threads, std::vector<mask_read>& to) const;
  result<> apply_masks(const resolved_basic& which, const tensor_view& out, std::vector<mask_read>& masks) const;
  resolved_basic of_one_band(resolved_basic which) const;
  conversion of_band(std::size_t band) const {
    conversion out = how;
    out.unpack = &bands[band];
    return out;
  }
  bool has_shared_mask() const noexcept { return !validity.mask || validity.mask_is_of_all_bands(); }
  /// Where the flags of a band begin in the result of `mask_flags`; null if the band is not masked.
  const std::uint8_t* flags_of(std::size_t band, const std::vector<std::uint8_t>& flags, std::uint64_t pixels) const {
    if (flags.empty() || !is_masked(band)) return nullptr;
    return flags.data() + (has_shared_mask() ? 0 : band * pixels);
  }
  bool is_masked(std::size_t band) const { return validity.masked[band] && validity.alpha_band != band; }

  /// Flags of `pixels` pixels, for all bands or for each; 0 is missing. Empty: no mask.
  /// \param masks  For each of `by_mask.masks()` these pixels, in C order.
  std::vector<std::uint8_t> mask_flags(const std::vector<std::vector<std::byte>>& masks, std::uint64_t pixels) const;
  /// Unpacks `pixels` adjacent pixels of a band. \param flags  Of these pixels, or null.
  void unpack_band(std::size_t band, const std::byte* packed, const std::uint8_t* flags, std::uint64_t pixels,
                   std::byte* out) const;
  /// Unpacks all bands, which follow each other.
  /// \param packed  May be the end of `out`: no item is read after its place was written.
  void unpack_bands(const std::byte* packed, const std::vector<std::uint8_t>& flags, std::uint64_t pixels,
                    std::byte* out) const;
};

}  // namespace penstock::inline v0
