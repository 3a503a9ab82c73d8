#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "codec/codec_chain.h"

namespace penstock::inline v0 {

/// Reads the members of a codec's `configuration`, each checked for kind and range. Borrows the configuration.
///
/// A required member that is absent, or one of the wrong kind or range, is `corrupt_data`; a member that the codec's
/// specification does not have is `unsupported`. null counts as absent. Messages name the codec and the member.
class codec_members {
 public:
  /// \error unsupported  The configuration has a member that is not in `known`.
  static result<codec_members> of(const codec_config& config, std::initializer_list<std::string_view> known);

  /// The codec as in numcodecs (`numcodecs.<id>`, also for ids of Zarr v2): its settings have defaults.
  bool numcodecs() const noexcept;

  bool has(std::string_view name) const noexcept { return find(name) != nullptr; }
  result<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most,
                               std::optional<std::int64_t> absent = std::nullopt) const;
  result<bool> boolean(std::string_view name, bool absent) const;
  /// An integer or not; numbers beyond 64 bits lose digits.
  result<double> number(std::string_view name, std::optional<double> absent = std::nullopt) const;
  /// One of `choices`; returns its index among them.
  result<std::size_t> choice(std::string_view name, std::span<const std::string_view> choices,
                             std::optional<std::size_t> absent = std::nullopt) const;
  result<const json::array_t*> list(std::string_view name) const;
  /// A list of codecs: objects with a `name` and an optional `configuration`, or names only.
  result<std::vector<codec_config>> codecs(std::string_view name) const;
  /// An element type as in NumPy: `<f4`, `f4`, `float32`.
  result<numpy_type> item_type(std::string_view name, const std::optional<numpy_type>& absent = std::nullopt) const;
  /// The member itself, or null.
  const json* find(std::string_view name) const noexcept;

 private:
  explicit codec_members(const codec_config& config) noexcept : config_(&config) {}
  error missing(std::string_view name) const;
  error wrong(std::string_view name, std::string_view wanted) const;

  const codec_config* config_;
};

}  // namespace penstock::inline v0
