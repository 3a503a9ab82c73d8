#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <penstock/extend/chunk_grid.h>
#include <penstock/result.h>

namespace penstock::inline v0 {

/// The arrays of a rechunk. Borrowed.
struct rechunk_request {
  const chunk_grid& from;  ///< of the source: the unit of decoding
  const chunk_grid& to;    ///< of the destination: the unit of writing
  std::uint64_t item_bytes = 1;
  std::uint64_t memory_bytes = 0;  ///< for blocks of elements
  unsigned workers = 1;
  bool gathers = true;    ///< blocks of the destination may wait in memory; false: they are shared by processes
  bool compares = false;  ///< complete blocks are compared with the destination: they are in memory twice
};

enum class rechunk_way : std::uint8_t {
  direct,    ///< blocks that are whole chunks of both sides are read and written
  gathered,  ///< blocks of the source are read and copied into blocks of the destination, which wait in memory for the
             ///< rest
  spilled,   ///< the same, but the parts wait in a file
};

/// How to decode each chunk of the source once and write each object of the destination once, within the memory.
///
/// In the file, a block of the destination is one range: its parts, in the order of `for_each_part`.
struct rechunk_plan {
  rechunk_way way = rechunk_way::direct;
  chunk_grid reads;         ///< blocks of whole chunks of the source
  chunk_grid writes;        ///< blocks of whole objects; direct: the same
  std::size_t slowest = 0;  ///< gathered: the axis along which blocks are read last
  unsigned workers = 1;     ///< workers, each of which has a block
  std::uint64_t memory_bytes = 0, file_bytes = 0;
};

/// \error invalid_argument  There is too little memory for one chunk and one object; the message has the needed size.
result<rechunk_plan> plan_rechunk(const rechunk_request& what);

/// A sentence or two: passes, blocks, memory.
std::string to_string(const rechunk_plan& plan, std::uint64_t item_bytes);

/// The elements of cell `id` that are inside the array.
box box_of(const chunk_grid& grid, chunk_id id);
/// Calls each(id, part) for the cells of `grid` that contain elements of `within`, in C order; `part` is their
/// intersection.
void for_each_part(const chunk_grid& grid, const box& within, const std::function<void(chunk_id, const box&)>& each);
/// The n-th block to be read, where those along `slowest` are last.
chunk_id nth_block(const chunk_grid& reads, std::size_t slowest, std::uint64_t n);

}  // namespace penstock::inline v0
