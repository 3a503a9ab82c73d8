#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "driver/hdf5_reader.h"
#include "driver/hdf5_sources.h"
#include "driver/hdf5_variable_cells.h"
#include "driver/open_reference.h"
#include "format/hdf5/hdf5_array.h"

namespace penstock::inline v0 {

/// Describes the datasets of one HDF5 file as arrays of references (byte ranges of the file).
class hdf5_references {
 public:
  hdf5_references(std::shared_ptr<context> with, std::shared_ptr<hdf5_reader> from, bool opened_for_reading)
      : context_(std::move(with)), from_(std::move(from)), opened_for_reading_(opened_for_reading) {}

  hdf5_file_place own_place() const { return {from_->from(), from_->key(), local_path()}; }

  /// \param uri  URI of the dataset.
  /// \param depth  Number of virtual datasets that led to this one.
  /// \param sources  Describes datasets of this file and of others, for a virtual dataset.
  /// \error As parse_zarr_v2_array's, reference_table::make's and compose_virtual's.
  result<referenced_array> describe(hdf5_array from, const std::string& uri, const hdf5_depth& depth,
                                    const describe_hdf5_sources& sources) const;

  /// Describes a dataset whose elements have variable length. Its cells are read from the file's heaps when they are
  /// needed.
  /// \error As describe's, find_shown_parts' and hdf5_shown_values::make's.
  result<referenced_array> describe_variable(hdf5_array from, const std::string& uri, const hdf5_depth& depth,
                                             const describe_hdf5_sources& sources) const;

 private:
  result<referenced_array> describe_mapped(hdf5_array from, const std::string& uri, const hdf5_depth& depth,
                                           const describe_hdf5_sources& sources) const;
  result<> name_external_files(const hdf5_array& from, referenced_array& what) const;
  result<referenced_array> by_cells(hdf5_array facts, const std::shared_ptr<const hdf5_variable_cells>& values,
                                    const extents& cell, const std::string& uri, const hdf5_depth& depth,
                                    const describe_hdf5_sources& sources) const;
  static result<> gather_external_files(const hdf5_array& from, referenced_array& what);
  std::string local_path() const;
  std::uint64_t memory_limit() const;

  std::shared_ptr<context> context_;
  std::shared_ptr<hdf5_reader> from_;
  bool opened_for_reading_;
};

}  // namespace penstock::inline v0
