#pragma once

#include <penstock/result.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/extend/json.h>
#include "format/hdf5/hdf5_attributes.h"
#include "format/hdf5/hdf5_file.h"
#include "format/hdf5/hdf5_group.h"
#include "format/hdf5/hdf5_heaps.h"
#include "format/hdf5/hdf5_object.h"
#include "format/hdf5/hdf5_typed_values.h"

namespace penstock::inline v0 {

/// An object of a file, and the path to it.
struct hdf5_place {
  std::uint64_t object = 0;           ///< address of its header
  std::vector<std::uint64_t> groups;  ///< addresses of headers, from the root to the object's group
  std::string name;                   ///< name of that link, as stored; empty: the root group
};

/// The target of an external link.
struct hdf5_exit {
  std::string file;  ///< as stored in the link
  std::string path;  ///< path in that file, from the root
};

/// A member of a group, with the name that is shown.
struct hdf5_member_name {
  std::string name;  ///< `x` for netCDF's `_nc4_non_coord_x`
  bool is_group = false;
  bool is_stand_in = false;            ///< netCDF's stand-in for a dimension without a variable
  bool leads_back = false;             ///< a link to a group on the path to it
  std::optional<hdf5_exit> exit = {};  ///< it is in another file, which may not exist
};

/// Whether the object with this header is a dataset.
bool is_hdf5_dataset(const std::vector<hdf5_message>& header) noexcept;

class hdf5_path_search;  // hdf5_targets.h

/// The links of a file, followed with netCDF's rules. Caches the links and headers that it has read. Not thread-safe.
class hdf5_tree {
 public:
  explicit hdf5_tree(hdf5_file& file) noexcept : file_(file), heap_(file) {}
  hdf5_tree(const hdf5_tree&) = delete;
  hdf5_tree& operator=(const hdf5_tree&) = delete;

  /// Follows hard links, and at most 16 soft links for each name of the path. A name also finds a variable that netCDF
  /// renamed because a dimension has its name.
  /// \error not_found    The object does not exist. \error corrupt_data  A group on the path is damaged.
  /// \error unsupported  The path crosses an external or user-defined link.
  result<hdf5_place> find(std::string_view path);

  /// The place where the path of the last `find` or `member` left the file; empty: it did not fail because of that.
  const std::optional<hdf5_exit>& exit() const noexcept { return exit_; }

  /// The datasets and groups of the group at a place, sorted by name. Omitted are named types, links without a target
  /// or to a group on the path, and netCDF's stand-ins for dimensions without a variable. Damaged members are listed;
  /// opening them fails.
  result<std::vector<hdf5_member_name>> members(const hdf5_place& group);
  /// The same with netCDF's stand-ins and links to groups on the path, in the order of the file: of creation if the
  /// group stores it, otherwise by name.
  result<std::vector<hdf5_member_name>> members_in_file_order(const hdf5_place& group);
  /// The target of `name` from the group at a place, as `find` follows it.
  result<hdf5_place> member(const hdf5_place& group, std::string_view name);

  /// The header of an object, with shared messages resolved. Valid as long as the tree.
  result<const std::vector<hdf5_message>*> header(std::uint64_t object);
  result<const std::vector<hdf5_link>*> links(std::uint64_t group);
  result<const std::vector<hdf5_attribute>*> attributes(std::uint64_t object);
  /// The attributes as JSON, without those that netCDF and dimension scales use internally. References are paths (for
  /// these, groups of the file are listed until their targets are found). A value of an unsupported type is the text
  /// `<not readable: ...>`.
  /// \error corrupt_data  An attribute is damaged; by name.
  result<json> attributes_json(std::uint64_t object);
  /// The types of the same attributes, which JSON does not represent.
  result<std::vector<hdf5_typed_value>> typed_attributes(std::uint64_t object);

  /// A name for each dimension of the dataset at a place, from the scale that was attached to it last. Empty if it has
  /// none. For a scale, its own name.
  /// \param rank  Of the dataset.
  result<std::vector<std::optional<std::string>>> dimension_names(const hdf5_place& dataset, std::size_t rank);
  /// Whether a dataset is a dimension scale.
  result<bool> is_scale(std::uint64_t object);

  /// The name of an enumeration's type, from the named types in the group of the dataset at a place or in one above;
  /// empty: it has none. netCDF stores copies of types.
  result<std::string> enumeration_name(const hdf5_place& dataset, const hdf5_type& type);

 private:
  using names = std::vector<std::optional<std::string>>;

  result<> follow(hdf5_place& at, std::string_view path);
  error with_rest(error failed, std::string_view rest);
  result<const hdf5_link*> link(std::uint64_t group, std::string_view name);
  const hdf5_link* listed_link(std::uint64_t group, const std::vector<hdf5_link>& listed, std::string_view name);
  result<> step(hdf5_place& at, std::string_view name);
  result<std::string> stored_name(const hdf5_place& group, std::string_view name);
  result<bool> is_stand_in(const hdf5_place& group, const hdf5_link& link);
  std::string path_of(std::uint64_t object);
  result<const hdf5_attribute*> attribute(std::uint64_t object, std::string_view name);
  result<std::string> text_attribute(std::uint64_t object, std::string_view name);
  result<std::vector<std::uint64_t>> attached_scales(std::uint64_t dataset, std::size_t rank);
  result<std::map<std::uint64_t, std::string>> names_of(const std::vector<std::uint64_t>& groups,
                                                        std::vector<std::uint64_t> objects);
  result<> coordinate_names(const hdf5_place& scale, names& out);

  hdf5_file& file_;
  hdf5_global_heap heap_;
  std::map<std::uint64_t, std::vector<hdf5_message>> headers_;
  std::map<std::uint64_t, std::vector<hdf5_link>> links_;
  std::map<std::uint64_t, std::map<std::string_view, const hdf5_link*>> by_name_;  // those of `links_`
  std::map<std::uint64_t, std::map<std::uint64_t, const hdf5_link*>> by_object_;   // hard ones of groups in `by_name_`
  std::map<std::pair<std::uint64_t, std::string>, hdf5_link> looked_up_;
  std::map<std::uint64_t, std::vector<hdf5_attribute>> attributes_;
  std::shared_ptr<hdf5_path_search> paths_;  // finds targets of references; null until the first one
  unsigned soft_links_ = 0;
  std::optional<hdf5_exit> exit_;
};

}  // namespace penstock::inline v0
