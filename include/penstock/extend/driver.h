#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/context.h>
#include <penstock/open.h>
#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// The first bytes of an object. `open` reads them once, for all drivers.
struct object_head {
  std::vector<std::byte> bytes;  ///< 4 KiB where requests cost nothing, else 16 KiB; less if the object is shorter
  std::uint64_t object_size = byte_range::kAll;  ///< kAll: the store does not report it
  version seen;                                  ///< what later reads of the object expect
};

/// Where a node is: resolved, and not opened yet.
struct location {
  std::shared_ptr<penstock::context> context;  ///< not null
  std::shared_ptr<const store> from;           ///< not null
  std::string path;                            ///< '/'-separated, without '/' at either end; empty: the store's root
  std::string uri;                             ///< as errors show the node
  std::shared_ptr<const object_head> head;     ///< of the object at `path`; null: there is none, or it was not read
};

/// Opens the nodes of one format. Stateless and thread-safe.
///
/// A format of one file has a driver that recognises its first bytes. The driver does all I/O of the metadata, makes
/// a `chunk_layout`, and with it the array (`make_array`).
class PENSTOCK_API format_driver {
 public:
  virtual ~format_driver() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Endings of names that such objects usually have: lower case, without the dot. They decide what is looked for
  /// first, an object or a Zarr node, and nothing else.
  virtual std::span<const std::string_view> endings() const noexcept = 0;
  /// Returns true if an object with these first bytes is of this format. No I/O.
  /// \param path  Of the object in its store.
  virtual bool sniff(std::span<const std::byte> begin, std::string_view path) const noexcept = 0;
  /// Opens the object at `at.path`, whose first bytes are `at.head` and were recognised.
  /// \error corrupt_data, unsupported  The metadata, by member. A note names the location.
  virtual result<node> open(const location& at, const open_options& how) const = 0;
};

}  // namespace penstock::inline v0
