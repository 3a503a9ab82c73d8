#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/appender.h>
#include <penstock/array.h>

namespace penstock::inline v0 {

/// How a pixel of a level is computed from the two by two pixels of the level before. At odd edges there are two, or
/// one.
enum class level_rule : std::uint8_t {
  mean,     ///< integers are rounded, halves up; NaN is ignored
  nearest,  ///< the first one
  mode,     ///< the most frequent one, bit for bit; the first one of several
};

/// How a group's attributes name its levels.
enum class level_convention : std::uint8_t {
  ome,      ///< OME-Zarr 0.5: `ome.multiscales`
  geozarr,  ///< GeoZarr: the Zarr convention `multiscales`
};

/// One of several arrays of the same image in a group.
struct group_level {
  std::string path;
  /// For each dimension, in the units of the attributes: the coordinate of element i is i * scale + translation. Empty:
  /// the attributes have none.
  std::vector<double> scale, translation;
};

/// The levels that the attributes of a group name, in their order, the finest first: OME-Zarr 0.4 and 0.5, GeoZarr. If
/// the group has several images: those of the first. Empty: the attributes name none.
/// \error corrupt_data  The attributes do not follow these conventions.
PENSTOCK_API result<std::vector<group_level>> levels_of(const group& of);

/// The shape of level `number` (0: the image): the last two dimensions halved that many times, rounded up.
PENSTOCK_API extents level_shape(const extents& image, unsigned number);

struct level_options {
  level_rule rule = level_rule::mean;
  level_convention convention = level_convention::ome;
  std::string name;  ///< name of the image in the attributes; empty: none
  appender_options appends;
};

class level_appender_state;  // src/api/image/level_appender.cc

/// Appends rows to an image and, from the same rows, to its coarser levels, without reading back.
///
/// Rows are appended along dimension 0. In an image of rank 2 that is y; otherwise dimension 0 is not halved, and each
/// row is complete in y and x. Each level has an `appender`: see there for threads, order and errors. `close` writes
/// the group's attributes, which name the levels, after it has stored them. Not thread-safe.
class PENSTOCK_API level_appender {
 public:
  /// \param levels  Paths in `in`, and arrays: the image, then each half as large as the one before (`level_shape`),
  ///              except for dimension 0, which grows.
  /// \error invalid_argument  Shapes or dtypes that do not match; OME-Zarr: fewer than 2 or more than 5 dimensions.
  /// \error unsupported  Values of this type have no mean.
  static result<level_appender> make(const group& in, std::vector<std::pair<std::string, array>> levels,
                                     const level_options& options = {});
  level_appender(level_appender&&) noexcept;
  level_appender& operator=(level_appender&&) noexcept;
  ~level_appender();

  /// \param rows  As of `appender::append`, in host memory; converted as by `write_options::convert`. Many are taken in
  ///              steps.
  /// \param progress  Empty, or called in this thread after each step, with bytes of the rows that were appended; false
  /// stops (`cancelled`).
  /// \error As `appender::append`: the notes give the number of rows that were taken, else none were. The failure of a
  /// coarser level is returned by the next call; its rows are queued, and the call after that tries again.
  result<> append(const tensor_view& rows, const progress_fn& progress = {});
  /// Stores all whole rows of all levels.
  result<> flush();
  /// Stores the remaining rows, and names the complete levels in the attributes: after an error, those before the
  /// incomplete one.
  result<group> close();

 private:
  explicit level_appender(std::unique_ptr<level_appender_state> state) noexcept;
  std::unique_ptr<level_appender_state> state_;
};

}  // namespace penstock::inline v0
