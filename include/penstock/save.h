#pragma once

#include <cstdint>
#include <optional>

#include <penstock/array.h>
#include <penstock/array_writer.h>
#include <penstock/dtype.h>
#include <penstock/result.h>
#include <penstock/tensor.h>

namespace penstock::inline v0 {

struct save_options {
  /// The type of the new array, if it differs from the source's: elements are converted as `read_options::type`
  /// describes. Raw bytes (`r32`) of the same size: elements are stored with their bytes in memory.
  std::optional<dtype> type;
  std::uint64_t memory_bytes = 0;  ///< for blocks that are read ahead; 0: half of the context's memory limit
  unsigned threads = 0;            ///< workers of each read; 0: the context's
  /// Called in the calling thread after each block, with bytes of the new array; false stops (`cancelled`).
  progress_fn progress;
};

/// Writes all elements of an array to a new one, which has the same shape; the caller closes the writer.
///
/// Reads blocks that the format stores separately (`array_writer::block`), whole chunks of the source if the memory
/// suffices, ahead on the threads of the source's context, and writes them in the calling thread. A format that stores
/// any box receives all elements at once if they fit into the memory. One block is read even if it needs more than
/// `memory_bytes`.
/// \error unsupported  `type` is raw, and elements of the source have another size, or a variable one.
/// \error  As `array::read` and `array_writer::write`.
PENSTOCK_API result<> write_all(const array& from, array_writer& to, const save_options& options = {});
/// The same for values in host memory, whose blocks are written without a copy.
/// \param options  `type` must be empty.
PENSTOCK_API result<> write_all(const tensor_view& values, array_writer& to, const save_options& options = {});

}  // namespace penstock::inline v0
