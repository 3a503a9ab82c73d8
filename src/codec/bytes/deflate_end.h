#pragma once

#include <penstock/result.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace penstock::inline v0 {

/// The container of a deflate stream.
enum class deflate_wrapper : std::uint8_t { zlib, gzip };

/// Returns how many bytes a stream decodes to if the stream is valid but its end is missing; else nullopt.
///
/// For error messages: decoders report missing bytes and damaged bytes alike. It decodes the codes without storing
/// values.
/// \param stream  Begins with the header of the container. \param most  Stops after that many decoded bytes.
/// Source: RFC 1950, RFC 1951, RFC 1952.
std::optional<std::uint64_t> decoded_before_end(std::span<const std::byte> stream, deflate_wrapper wrapper,
                                                std::uint64_t most);

/// The error of a zlib stream that does not decode, which states whether its end is missing.
error damaged_deflate(std::string_view name, std::span<const std::byte> stream, std::uint64_t most);

}  // namespace penstock::inline v0
