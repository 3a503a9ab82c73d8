#pragma once

/// \file Reads one tile of an array on each MPI rank. Needs <mpi.h>. The library itself does not use MPI, so any
/// implementation works.
///
/// Every function is collective. If a rank fails, all ranks return an error that names it: no rank is left waiting.

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/array.h>
#include <penstock/describe.h>
#include <penstock/open.h>
#include <penstock/tiles.h>

namespace penstock::inline v0::mpi {

namespace detail {

/// Default-initialises elements: the read overwrites them.
template <class T>
struct uninitialised : std::allocator<T> {
  template <class Other>
  struct rebind {
    using other = uninitialised<Other>;
  };
  template <class Made>
  void construct(Made* at) noexcept {
    ::new (static_cast<void*>(at)) Made;
  }
};

}  // namespace detail

/// The data that a rank has loaded.
struct tile {
  std::vector<std::byte, detail::uninitialised<std::byte>>
      data;  ///< its elements in C order; none for a rank beyond the last tile
  extents shape;
  std::uint64_t begin = 0;  ///< its first position along the axis that was cut
};

namespace detail {

inline int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

inline int size_of(MPI_Comm comm) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return size;
}

// In parts, because MPI counts with int.
inline void broadcast(std::string& text, int root, MPI_Comm comm) {
  unsigned long long bytes = text.size();
  MPI_Bcast(&bytes, 1, MPI_UNSIGNED_LONG_LONG, root, comm);
  text.resize(static_cast<std::size_t>(bytes));
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  for (std::size_t at = 0; at < text.size(); at += kPiece)
    MPI_Bcast(text.data() + at, static_cast<int>(std::min(kPiece, text.size() - at)), MPI_CHAR, root, comm);
}

// All ranks receive the first rank that failed, if one did.
inline result<> agree(result<> mine, MPI_Comm comm) {
  int failed = mine.ok() ? std::numeric_limits<int>::max() : rank_of(comm);
  int first = failed;
  MPI_Allreduce(&failed, &first, 1, MPI_INT, MPI_MIN, comm);
  if (first == std::numeric_limits<int>::max()) return {};
  std::string text;
  int code = 0;
  if (first == rank_of(comm)) {
    text = mine.error().to_string();
    code = static_cast<int>(mine.error().code());
  }
  MPI_Bcast(&code, 1, MPI_INT, first, comm);
  broadcast(text, first, comm);
  if (!mine.ok()) return mine;
  error shared(static_cast<errc>(code),
               "rank " + std::to_string(first) + " of " + std::to_string(size_of(comm)) + " failed");
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    shared.note(text.substr(at, end - at));
    at = end + 1;
  }
  return shared;
}

// Runs `work()`. An allocation failure becomes its error: an exception would leave the other ranks waiting.
template <class Work>
auto within_memory(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return error(errc::resource_exhausted, "this rank is out of memory");
  } catch (const std::length_error&) {
    return error(errc::resource_exhausted, "this rank's tile has more bytes than can be addressed");
  }
}

}  // namespace detail

/// Opens an array on every rank. Only rank 0 reads the metadata; it sends them to the others.
/// \param uri  Used on rank 0 only.
/// \error As open_array, on every rank.
inline result<array> open(std::string_view uri, MPI_Comm comm, const open_options& options = {}) {
  std::string description;
  result<> described;
  if (detail::rank_of(comm) == 0) {
    auto made = detail::within_memory([&]() -> result<std::string> {
      auto opened = open_array(uri, options);
      if (!opened.ok()) return std::move(opened).error();
      return describe(*opened);
    });
    if (made.ok()) {
      description = std::move(*made);
    } else {
      described = std::move(made).error();
    }
  }
  described = detail::agree(std::move(described), comm);
  if (!described.ok()) return std::move(described).error();
  detail::broadcast(description, 0, comm);

  open_options here = options;
  here.path.clear();
  auto opened = detail::within_memory([&] { return open_description(description, here); });
  auto agreed = detail::agree(opened.ok() ? result<>() : result<>(opened.error().clone()), comm);
  if (!agreed.ok()) return std::move(agreed).error();
  return opened;
}

/// Reads this rank's tile of `tile_axis(shape[axis], ranks)`.
/// \param from  The same array on every rank.
/// \error invalid_argument  The array does not have the axis, or has elements of variable length.
/// \error As array::read; on the other ranks the same code, with the rank that failed and its error.
inline result<tile> load(const array& from, MPI_Comm comm, std::size_t axis = 0, const read_options& options = {}) {
  auto loaded = detail::within_memory([&]() -> result<tile> {
    if (axis >= from.shape().size()) return error(errc::invalid_argument, "the array has no such axis");
    if (from.type().variable_length())
      return error(errc::invalid_argument, "elements of variable length cannot be loaded as bytes");
    const auto cut = tile_axis(from.shape()[axis], static_cast<std::uint64_t>(detail::size_of(comm)));
    const auto rank = static_cast<std::uint64_t>(detail::rank_of(comm));
    tile out;
    out.shape = from.shape();
    out.begin = cut->begin(rank);
    out.shape[axis] = cut->end(rank) - out.begin;
    std::uint64_t bytes = from.type().item_bytes();
    for (const std::uint64_t length : out.shape) {
      if (length != 0 && bytes > std::numeric_limits<std::size_t>::max() / 2 / length)
        return error(errc::resource_exhausted, "this rank's tile has more bytes than can be addressed");
      bytes *= length;
    }
    out.data.resize(static_cast<std::size_t>(bytes));
    if (bytes == 0) return out;
    basic_selection which;
    for (std::size_t d = 0; d < out.shape.size(); ++d) {
      const std::uint64_t begin = d == axis ? out.begin : 0;
      which.items.push_back(
          slice{static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + out.shape[d]), 1});
    }
    auto done = from.read(which, tensor_view::contiguous(out.data.data(), from.type(), out.shape), options);
    if (!done.ok()) return std::move(done).error();
    return out;
  });
  auto agreed = detail::agree(loaded.ok() ? result<>() : result<>(loaded.error().clone()), comm);
  if (!agreed.ok()) return std::move(agreed).error();
  return loaded;
}

}  // namespace penstock::inline v0::mpi
