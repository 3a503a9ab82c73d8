#pragma once

#include <cstddef>
#include <span>

namespace penstock::inline v0 {

/// Decodes a stream of BloscLZ, the compressor of Blosc's own, which c-blosc does not offer without a frame around it.
///
/// Runs of literals and references to earlier output: a first byte below 32 is a run of that many literals and one
/// more. Otherwise its upper three bits are a length and its lower five the upper part of a distance. Source:
/// c-blosc2 blosc/blosclz.c.
///
/// \return  Whether the stream is whole and fills `to` exactly.
bool decompress_blosclz(std::span<const std::byte> from, std::span<std::byte> to) noexcept;

}  // namespace penstock::inline v0
