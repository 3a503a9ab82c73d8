#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/open.h>
#include <penstock/shards.h>
#include "driver/hdf5_reader.h"
#include "driver/hdf5_references.h"
#include "driver/open_hdf5.h"
#include "engine/array_state.h"
#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/hdf5_tree.h"

namespace penstock::inline v0 {

/// The groups and datasets of an HDF5 file, by path, also over links into other files. Paths are relative to the root.
class hdf5_nodes final : public member_source, public std::enable_shared_from_this<hdf5_nodes> {
 public:
  using described_dataset = std::shared_ptr<const referenced_array>;

  /// \param uri  URI of the file.
  hdf5_nodes(std::shared_ptr<context> with, std::shared_ptr<hdf5_reader> from, std::string uri,
             bool opened_for_reading);

  result<node> open(std::string_view path) const override;
  result<std::optional<std::vector<std::string>>> keys(std::string_view path) const override;
  result<hdf5_members> members(std::string_view path) const;

  /// The datasets that match a name or a pattern.
  result<std::vector<hdf5_contents::dataset>> find_datasets(const std::string& pattern, shard_gaps gaps) const;
  /// Paths of datasets, at most `most`.
  result<std::vector<std::string>> dataset_paths(std::size_t most) const;
  result<hdf5_dimension_names> dimensions() const;
  /// A group with its datasets, which are described but not opened.
  result<hdf5_contents> describe(std::string_view path) const;

  bool is_of(const store& from, const std::string& key) const;

 private:
  struct matched_dataset;
  struct matched_exit;

  result<node> open_at(const std::string& prefix, const std::string& uri, unsigned links) const;
  result<node> open_beyond(const hdf5_exit& exit, unsigned links) const;
  result<node> open_dataset(hdf5_array from, const std::string& uri, const std::string& path,
                            const std::shared_ptr<const held_bytes>& held) const;
  result<array> open_by_need(hdf5_array from, const std::string& uri, const std::string& path) const;

  result<described_dataset> described(hdf5_array from, const std::string& uri) const;
  result<referenced_array> referenced(hdf5_array from, const std::string& uri, const hdf5_depth& depth) const;
  result<described_dataset> dataset(const std::string& path, unsigned links) const;
  result<described_dataset> source(const std::string& path, const hdf5_depth& depth) const;
  result<std::vector<described_dataset>> sources(const hdf5_file_place& file, const std::vector<std::string>& paths,
                                                 const hdf5_depth& depth) const;

  template <class List>
  result<std::vector<hdf5_member_name>> list(std::string_view path, List&& list) const;
  result<> match(const std::string& base, std::span<const std::string> parts, const std::string& shown, unsigned links,
                 std::vector<hdf5_contents::dataset>& out) const;
  static result<> match_here(hdf5_file& file, const std::string& base, std::span<const std::string> parts,
                             std::vector<matched_dataset>& found, std::vector<matched_exit>& exits);
  bool has_object(const std::string& path) const;
  bool is_shown(const hdf5_exit& exit, unsigned links) const;
  result<std::shared_ptr<const hdf5_nodes>> beyond(const hdf5_exit& exit) const;
  result<std::shared_ptr<const hdf5_nodes>> nodes_at(const hdf5_file_place& file) const;

  void listed(std::string_view path, const std::vector<std::string>& names) const;
  std::optional<std::vector<std::string>> siblings_of(std::string_view path) const;
  void prefetch(hdf5_file& file, hdf5_tree& tree, std::string_view group, const std::vector<std::string>& names) const;
  std::optional<byte_range> fetch_whole(hdf5_file& file, std::string_view path) const;

  std::shared_ptr<context> context_;
  std::shared_ptr<hdf5_reader> from_;
  std::string uri_;  // of the file
  bool opened_for_reading_;
  hdf5_references references_;

  struct listing {
    std::string group;               // its path and a slash; empty: the root
    std::vector<std::string> names;  // names of members that are not fetched yet
    bool known = false;
  };
  mutable std::mutex listed_mutex_;
  mutable listing listed_;  // the group that was listed last
};

}  // namespace penstock::inline v0
