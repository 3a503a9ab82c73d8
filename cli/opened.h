#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <penstock/array.h>
#include <penstock/copy.h>

namespace penstock::inline v0::cli {

class opened_group;

/// The input of a verb. The group is a reference, because Python opens formats whose groups are not the library's own.
using opened = std::variant<array, std::shared_ptr<const opened_group>>;

/// A group that a verb can describe and traverse.
class opened_group {
 public:
  virtual ~opened_group() = default;
  virtual std::string uri() const = 0;
  virtual std::string format() const = 0;
  /// A JSON object.
  virtual std::string attributes_json() const = 0;
  /// True if the children come from consolidated metadata.
  virtual bool consolidated() const { return false; }
  /// Equal for two paths of one file to the same group; empty: not known.
  virtual std::string identity() const { return {}; }
  /// Names of the direct children, sorted.
  virtual result<std::vector<std::string>> keys() const = 0;
  virtual result<opened> open(const std::string& name) const = 0;
  /// The library's group, or null for a group of a format that the library does not open.
  virtual const group* own() const { return nullptr; }
  /// Copies the group and everything in it to the URI `to`.
  virtual result<copy_report> copy_to(const std::string& to, const copy_options& options) const = 0;
};

/// Opens formats that the library does not: the Python package provides its `penstock.open`.
/// \param storage  A JSON object: the package's `storage_options`.
/// \error not_found  Nothing of a known format exists there.
using opener = std::function<result<opened>(const std::string& uri, unsigned threads, const std::string& storage)>;

/// Names the coordinate system of a TIFF's image: `EPSG:32633`, or WKT; empty: none is known. The Python package uses
/// PROJ for it.
using system_namer = std::function<result<std::string>(const array& image)>;

}  // namespace penstock::inline v0::cli
