#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <penstock/create.h>
#include <penstock/result.h>
#include <penstock/shape.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

/// A new array of a format of one file, such as a TIFF: written in blocks, each once, and stored by `close`.
///
/// Until then its name refers to the old file, if there is one. Destroying it without `close` leaves no file.
class PENSTOCK_API array_writer {
 public:
  virtual ~array_writer() = default;

  /// The unit that the format stores separately, as lengths of the last dimensions: boxes begin at multiples of them,
  /// and end there or at the array's end. Empty: any boxes.
  virtual extents block() const { return {}; }
  /// Writes `values` (host memory, any strides) to the box of their shape that begins at `origin`.
  /// \error invalid_argument  Another rank or type; a box that the format cannot store separately, or that was already
  /// written; the writer is closed. \error out_of_range  The box exceeds the array.
  virtual result<> write(std::span<const std::uint64_t> origin, const tensor_view& values) = 0;
  /// Stores the array. A second call does nothing, except that it tries again if the store refused the file.
  virtual result<> close() = 0;
  /// Discards the written data.
  virtual void discard() noexcept = 0;
  /// `close` or `discard` was called.
  virtual bool closed() const noexcept = 0;

 protected:
  array_writer() = default;
  array_writer(array_writer&&) = default;
  array_writer& operator=(array_writer&&) = default;
};

/// Begins a new array of a format whose arrays are written once. Nothing is written yet.
/// \param options  Options that the format does not have are refused. An empty `format` means that of the name's
/// ending.
/// \error invalid_argument  An option, by name; the path exists; its ending is not that of such a format.
/// \error unsupported  Arrays of this format are created first and written afterwards (`create_array`), or only read.
PENSTOCK_API result<std::unique_ptr<array_writer>> begin_array(std::shared_ptr<store> in,
                                                               const create_options& options);
/// The same at a path or URI, which `options.path` is within.
PENSTOCK_API result<std::unique_ptr<array_writer>> begin_array(std::string_view uri, const create_options& options);

}  // namespace penstock::inline v0
