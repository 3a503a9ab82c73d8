#pragma once

#include <penstock/array_source.h>
#include <penstock/store.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::inline v0 {

/// The boxes of sources as objects: `<name>/[0:10, 64:128]`, as `source_layout` names them. For reading only.
class source_store final : public store {
 public:
  /// \param cells  For each source the shape of its cells.
  source_store(std::vector<array_source> parts, std::vector<extents> cells, std::string uri);

  store_traits traits() const override;
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  std::string uri() const override { return uri_; }

  /// The beginning of the keys of source `i`.
  std::string prefix(std::size_t i) const { return names_[i] + '/'; }

 private:
  result<read_done> read_one(const byte_read& wanted) const;
  result<> read_box(std::size_t which, const box& at, std::span<std::byte> out) const;

  const std::vector<array_source> parts_;
  const std::vector<extents> cells_;
  const std::string uri_;
  std::vector<std::string> names_;                             // without duplicates
  std::unordered_map<std::string_view, std::size_t> by_name_;  // views of names_
};

}  // namespace penstock::inline v0
