// Datasets of many HDF5 files as one array.
#include "api/joined/open_datasets.h"

#include <fmt/format.h>
#include <penstock/joined.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "api/joined/virtual_file.h"
#include "base/counted.h"
#include "driver/complaints.h"
#include "driver/for_each_file.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kMostNamedFiles = 20;

/// A dataset of one of the files.
struct found_dataset {
  std::size_t file = 0;
  virtual_variable what;  ///< its name is the path in the file
};

bool has_items(const short_extents& shape) { return std::find(shape.begin(), shape.end(), 0U) == shape.end(); }

bool has_references(const virtual_variable& of) { return of.coding && of.part.table->entries() != 0; }

std::string uri_of(const virtual_variable& of) {
  std::string out = of.uri;
  while (out.ends_with('/')) out.pop_back();
  return out;
}

std::string shown(const virtual_variable& of) {
  return fmt::format("{} {}", of.facts->type.name(), to_string(extents_of(of.shape())));
}

class dataset_merger {
 public:
  dataset_merger(const std::vector<dataset_file>& files, const dataset_options& options)
      : files_(files), how_(options) {
    opening_.context = how_.context;
    opening_.mode = open_mode::read;
    out_.dataset = options.dataset;
  }

  result<dataset_parts> merge() {
    if (files_.empty()) return error(errc::invalid_argument, "the list of files is empty");
    if (out_.dataset.empty()) {
      PENSTOCK_ASSIGN(out_.dataset, only_dataset());
    }
    PENSTOCK_TRY(read());
    PENSTOCK_TRY(compare());
    for (const found_dataset& each : found_) out_.lengths.push_back(each.what.shape()[out_.axis]);
    PENSTOCK_ASSIGN(out_.merged, merged());
    if (out_.merged) return std::move(out_);
    for (const found_dataset& each : found_) {
      PENSTOCK_ASSIGN(array opened, open_virtual_variable(restored(first(), each.what), how_.context));
      out_.parts.push_back({each.file, each.what.name, std::move(opened)});
    }
    return std::move(out_);
  }

 private:
  const virtual_variable& first() const { return found_.front().what; }

  result<std::string> only_dataset() const {
    const dataset_file& file = files_.front();
    PENSTOCK_ASSIGN(const std::vector<std::string> paths,
                    hdf5_dataset_paths(file.from, file.key, kMostNamedFiles, opening_, file.hints));
    if (paths.size() == 1) return paths.front();
    std::string names;
    for (const std::string& each : paths) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", each);
    return error(errc::invalid_argument, fmt::format("HDF5 files hold datasets by name: give dataset= (it holds {})",
                                                     paths.empty() ? "none" : names))
        .note(fmt::format("in '{}'", name_of(file)));
  }

  static std::string name_of(const dataset_file& file) {
    std::string out = child_uri(file.from->uri(), file.key + "/");
    while (out.ends_with('/')) out.pop_back();
    return out;
  }

  // Finds the datasets of all files.
  result<> read() {
    std::vector<std::vector<virtual_variable>> found(files_.size());
    std::vector<std::optional<error>> failed(files_.size());
    const auto look = [&](std::size_t i) {
      const dataset_file& file = files_[i];
      auto made = describe_hdf5_datasets(file.from, file.key, out_.dataset, how_.gaps, opening_, file.hints);
      if (!made.ok()) {
        failed[i] = std::move(made).error();
        return;
      }
      for (hdf5_contents::dataset& each : *made) {
        virtual_variable& one = found[i].emplace_back(variable_of(std::move(each.name), std::move(each.what)));
        if (!found[0].empty() && &one != &found[0].front()) share_with(found[0].front(), one);
        if (!file.crc32c) continue;
        for (referenced_object& object : one.part.objects)
          if (object.from == file.from && object.key == file.key) object.crc32c = file.crc32c;
      }
    };
    look(0);
    for_each_file(files_.size() - 1, *files_.front().from, *how_.context, [&](std::size_t i) { look(i + 1); });
    complaints unreadable;
    std::optional<errc> worst;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (!failed[i]) continue;
      if (!worst) worst = failed[i]->code();
      unreadable.add(name_of(files_[i]), failed[i]->message());
    }
    if (worst)
      return unreadable.make(*worst, "cannot be read", files_.size()).note(fmt::format("dataset '{}'", out_.dataset));
    for (std::size_t i = 0; i < files_.size(); ++i)
      for (virtual_variable& each : found[i]) found_.push_back({i, std::move(each)});
    return {};
  }

  // Refuses datasets that cannot be joined.
  result<> compare() {
    complaints scalars, others;
    for (const found_dataset& each : found_)
      if (each.what.shape().empty()) scalars.add(uri_of(each.what), "a scalar has no axis to join along");
    if (scalars.any()) return scalars.make(errc::invalid_argument, "are scalars", found_.size(), "datasets");
    const auto rank = static_cast<std::int64_t>(first().shape().size());
    if (how_.axis < -rank || how_.axis >= rank)
      return error(errc::invalid_argument,
                   fmt::format("axis {} is out of range for arrays with {}", how_.axis, counted(rank, "dimension")));
    out_.axis = static_cast<std::size_t>(how_.axis < 0 ? how_.axis + rank : how_.axis);
    for (const found_dataset& each : found_)
      if (!goes_with_first(each.what)) others.add(uri_of(each.what), shown(each.what));
    if (others.any())
      return others.make(errc::invalid_argument, fmt::format("do not match '{}', {}", uri_of(first()), shown(first())),
                         found_.size());
    for (const std::string_view name : kMeaning) {
      const json* const expected = first().facts->attributes.find(name);
      complaints different;
      for (const found_dataset& each : found_) {
        if (each.what.facts == first().facts) continue;
        const json* const value = each.what.facts->attributes.find(name);
        if (value == nullptr ? expected != nullptr : expected == nullptr || !same_json(*value, *expected))
          different.add(uri_of(each.what), "has " + value_text(value));
      }
      if (different.any())
        return different.make(
            errc::invalid_argument,
            fmt::format("have another '{}' than '{}' ({})", name, uri_of(first()), value_text(expected)), found_.size(),
            "datasets");
    }
    return {};
  }

  bool goes_with_first(const virtual_variable& of) const {
    if (!(of.facts->type == first().facts->type) || of.shape().size() != first().shape().size()) return false;
    for (std::size_t d = 0; d < of.shape().size(); ++d)
      if (d != out_.axis && of.shape()[d] != first().shape()[d]) return false;
    return true;
  }

  // Moves the references out of the found datasets into one table. Returns nullopt if no table can describe them.
  result<std::optional<array>> merged() {
    const virtual_variable* like = nullptr;   // the first with references
    const virtual_variable* items = nullptr;  // the first with elements
    bool has_gaps = false, one_fill = true;
    for (const found_dataset& each : found_) {
      const virtual_variable& of = each.what;
      if (!of.coding || of.facts->type.variable_length()) return std::optional<array>();
      if (!has_items(of.shape())) continue;
      if (items == nullptr) items = &of;
      if (like == nullptr && has_references(of)) like = &of;
      has_gaps = has_gaps || of.part.table->entries() != of.part.table->cells();
      one_fill = one_fill && of.facts->fill == items->facts->fill;
    }
    if (has_gaps && !one_fill) return std::optional<array>();
    if (like == nullptr) like = items != nullptr ? items : &first();
    std::vector<reference_part*> parts;
    parts.reserve(found_.size());
    std::deque<reference_part> filled;
    for (found_dataset& each : found_) {
      if (has_references(each.what)) {
        if (!make_part_like(*like, each.what)) return std::optional<array>();
        parts.push_back(&each.what.part);
        continue;
      }
      reference_part& made = filled.emplace_back();
      made.shape = each.what.shape();
      made.chunks = like->part.chunks;
      parts.push_back(&made);
    }
    PENSTOCK_ASSIGN(auto made, merge_references(shown_as_first(*like), parts, out_.axis));
    if (!made) return std::optional<array>();
    made->uri = uri_of(first());
    if (found_.size() > 1) {
      const std::string last = uri_of(found_.back().what);
      made->uri += " ... " + last.substr(last.rfind('/') + 1);
    }
    PENSTOCK_ASSIGN(array out, open_reference(how_.context, std::move(*made)));
    return std::optional(std::move(out));
  }

  // With the attributes and the names of dimensions of the first dataset.
  referenced_array shown_as_first(const virtual_variable& of) const {
    const virtual_variable whole = restored(first(), of);
    referenced_array out = *whole.what;
    const referenced_array& shown = *first().what;
    out.hdf5 = shown.hdf5;
    out.dimension_names = shown.dimension_names;
    for (auto& [name, text] : out.documents)
      for (const auto& [other, theirs] : shown.documents)
        if (name == ".zattrs" && other == name) text = theirs;
    return out;
  }

  const std::vector<dataset_file>& files_;
  const dataset_options& how_;
  open_options opening_;
  std::vector<found_dataset> found_;
  dataset_parts out_;
};

}  // namespace

result<dataset_parts> merge_datasets(const std::vector<dataset_file>& files, const dataset_options& options) {
  dataset_options how = options;
  if (!how.context) {
    PENSTOCK_ASSIGN(how.context, context::make());
  }
  return dataset_merger(files, how).merge();
}

result<array> open_datasets(std::shared_ptr<const store> from, std::vector<std::string> keys,
                            const dataset_options& options) {
  std::vector<dataset_file> files;
  files.reserve(keys.size());
  for (std::string& each : keys) files.push_back({from, std::move(each)});
  PENSTOCK_ASSIGN(dataset_parts made, merge_datasets(files, options));
  if (made.merged) return std::move(*made.merged);
  std::vector<array> parts;
  for (dataset_parts::part& each : made.parts) parts.push_back(std::move(each.opened));
  return join(parts, made.axis, options.context);
}

}  // namespace penstock::inline v0
