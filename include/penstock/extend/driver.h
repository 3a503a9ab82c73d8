#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/array.h>
#include <penstock/array_writer.h>
#include <penstock/context.h>
#include <penstock/create.h>
#include <penstock/extend/array_description.h>
#include <penstock/extend/layout.h>
#include <penstock/open.h>
#include <penstock/result.h>
#include <penstock/store.h>

namespace penstock::inline v0 {

/// The first bytes of an object. `open` reads them once, for all drivers.
struct object_head {
  /// 4 KiB if requests cost nothing, else `format_driver::head_bytes`; less if the object is shorter
  std::vector<std::byte> bytes;
  std::uint64_t object_size = byte_range::kAll;  ///< kAll: the store does not report it
  version seen;                                  ///< the version that later reads of the object require
  bool sent_all = false;                         ///< the server ignores ranges (see `read_done`)
};

/// The location of a node: resolved, but not opened yet.
struct location {
  std::shared_ptr<penstock::context> context;  ///< not null
  std::shared_ptr<const store> from;           ///< not null
  std::string path;                            ///< '/'-separated, without '/' at either end; empty: the store's root
  std::string uri;                             ///< the node's name in errors
  std::shared_ptr<const object_head> head;     ///< of the object at `path`; null: it does not exist, or was not read
};

/// The location of a new array.
struct new_location {
  std::shared_ptr<penstock::context> context;  ///< not null
  std::shared_ptr<store> to;                   ///< not null
  std::string path;                            ///< as of `location`
  std::string uri;                             ///< the array's name in errors
};

/// Opens and creates the arrays of one format: a member of `context_options::drivers`. Stateless and thread-safe; lives
/// as long as the context.
///
/// A format of one file has a driver that recognises its first bytes. A format whose nodes are folders of several
/// objects has one that looks for its documents (`open_folder`). The driver does all I/O of the metadata
/// (`read_object`), creates a `chunk_layout`, and from it the array (`make_array`).
class PENSTOCK_API format_driver {
 public:
  virtual ~format_driver() = default;
  virtual std::string_view name() const noexcept = 0;  ///< of the format, as in `array::format`
  /// Endings of names that such objects usually have: lower case, without the dot. They decide whether an object or a
  /// Zarr node is looked up first, and which driver creates a new array of that name. They do not decide the format of
  /// an object that exists.
  virtual std::span<const std::string_view> endings() const noexcept = 0;
  /// The size of the first request for an object whose name has one of the endings, if requests cost time: the bytes
  /// that are needed to open most files of the format.
  virtual std::uint64_t head_bytes() const noexcept { return std::uint64_t{16} << 10; }
  /// Returns true if an object with these first bytes is of this format. No I/O. Formats of folders recognise none.
  /// \param path  Of the object in its store.
  virtual bool sniff(std::span<const std::byte> begin, std::string_view path) const noexcept = 0;
  /// Opens the object at `at.path`, whose first bytes are `at.head` and were recognised.
  /// \error corrupt_data, unsupported  The metadata, by member. `open` adds the note that names the location.
  virtual result<node> open(const location& at, const open_options& how) const = 0;
  /// Opens the node whose documents are below `at.path`. Returns nullopt if there are none. Formats of one file always
  /// return nullopt.
  /// \error corrupt_data, unsupported  The metadata, by member.
  virtual result<std::optional<node>> open_folder(const location& at, const open_options& how) const;
  /// Writes an array without values, and opens it. A format of one file ends with `put_new_object` and
  /// `open_new_object`.
  ///
  /// Nothing is written if an option is wrong. The default serves formats that are only read.
  /// \param how  `path`, `format` and `context` are those of `at`. A driver refuses options that its format does not
  ///              have (`invalid_argument`, by name), and replaces an existing node only with `overwrite`.
  /// \error unsupported  Arrays of this format cannot be created before their values are written.
  virtual result<array> create(const new_location& at, const create_options& how) const;
  /// True if `begin` makes new arrays: those of a format of one file, whose values are written with it.
  virtual bool writes_once() const noexcept { return false; }
  /// Begins an array that is stored when all of it is written. Nothing is written yet.
  /// \param how  As for `create`.
  /// \error unsupported  `writes_once` is false.
  virtual result<std::unique_ptr<array_writer>> begin(const new_location& at, const create_options& how) const;
  /// Names the function that writes new files of this format, if it is not this driver: for the error that refuses such
  /// a name for a node of another format. Empty: no such function.
  virtual std::string_view written_by() const noexcept { return {}; }
  /// Creates a group without members, as `create` creates an array.
  /// \error unsupported  The format has no groups, or cannot create them without members.
  virtual result<group> create_group(const new_location& at, const create_group_options& how) const;
  /// False if an object of the format is one array: paths do not continue inside it, so a longer path is looked up in
  /// storage.
  virtual bool has_members() const noexcept { return true; }
  /// Opens the member at the path `inner` of such an object, for files that hold several arrays. The default opens the
  /// object, and its group opens the member.
  /// \param inner  '/'-separated, not empty.
  /// \error not_found  It does not exist. Always returned by formats whose objects are one array.
  virtual result<node> open_inside(const location& at, std::string_view inner, const open_options& how) const;
};

/// Puts the object at a new location, and makes it visible (`store::flush`).
/// \error invalid_argument  It exists, and `how` does not have `overwrite`; the path is empty.
PENSTOCK_API result<> put_new_object(const new_location& at, std::span<const part> parts, const create_options& how);

/// Opens the array of an object that `put_new_object` has just put, by its first bytes.
/// \error As `driver.open`'s.
PENSTOCK_API result<array> open_new_object(const new_location& at, const format_driver& driver);

/// Bytes of an object, and the version of the object.
struct object_bytes {
  std::vector<std::byte> bytes;
  version seen;
  std::uint64_t object_size = byte_range::kAll;  ///< kAll: the store does not report it
};

/// Reads bytes of an object and waits for them: metadata beyond the first bytes.
///
/// \param max_bytes  A longer object is `corrupt_data`: sizes that a file claims must not cause allocations.
/// \param expected   Null, or the version of the object when earlier bytes were read; a different one is
///              `version_changed`.
/// \error not_found  The object does not exist. \error corrupt_data  The range exceeds the object. \error As the
/// store's.
PENSTOCK_API result<object_bytes> read_object(const store& from, std::string_view key, const byte_range& range,
                                              std::uint64_t max_bytes, const version* expected = nullptr);

/// Makes the open array of a layout.
///
/// Objects are those of `at.from` whose keys are `layout->key(i)`, relative to the store's root.
/// \param layout  Shared with all reads of the array. Without an assembler the array is read-only.
/// \param what    `chunks` may be empty: those of the grid's first cell. `fill_value` may be empty: zeros.
/// `codecs_text` may be empty: the text of the layout's first coding.
/// \error invalid_argument  Description and layout contradict each other: rank, shape, dtype or fill value.
PENSTOCK_API result<array> make_array(const location& at, std::shared_ptr<const chunk_layout> layout,
                                      array_description what, const open_options& how = {});

}  // namespace penstock::inline v0
