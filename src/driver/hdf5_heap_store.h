#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include <penstock/context.h>
#include <penstock/store.h>
#include "driver/hdf5_variable_cells.h"
#include "engine/item_store.h"

namespace penstock::inline v0 {

/// The cells of a dataset whose elements are of variable length, as objects by the keys of Zarr 2 (`0.3`).
///
/// If the file's store is synchronous, the calling thread reads the cell. Otherwise a thread of the context reads all
/// cells that are requested at that time together, in a few round trips.
class hdf5_heap_store final : public item_store {
 public:
  /// \param with  Its threads read.
  hdf5_heap_store(std::shared_ptr<const hdf5_variable_cells> of, std::shared_ptr<context> with);

  store_traits traits() const override;
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  void read_items(std::span<const item_read> reads, completion_sink& sink, std::stop_token stop) const override;
  std::string uri() const override;
  const hdf5_variable_cells& values() const noexcept { return *of_; }

 private:
  class batches;
  struct waiting_read;
  std::shared_ptr<const hdf5_variable_cells> of_;
  std::shared_ptr<batches> batches_;
  std::shared_ptr<context> with_;
};

}  // namespace penstock::inline v0
