#include <penstock/copy.h>
#include <penstock/open.h>

#include <penstock/create.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "api/copy/array_copy.h"
#include "api/copy/source_overlap.h"
#include "array/list_items.h"
#include "base/nearest_word.h"
#include "driver/node_files.h"
#include "driver/node_replacement.h"
#include "driver/open_hdf5.h"
#include "driver/zarr_nodes.h"
#include "engine/array_state.h"
#include "format/zarr/zarr_data_type.h"
#include "format/zarr/zarr_v2.h"

namespace penstock::inline v0 {
namespace {

/// Groups nested deeper than this count as a loop of links.
constexpr int kMaxDepth = 64;
/// A group that several links of a file lead to is copied for each of them, up to this number.
constexpr std::size_t kMostRepeated = 1000;

int format_of(const std::string& format) { return format == "zarr2" ? 2 : 3; }

bool is_zarr(const std::string& format) { return format == "zarr2" || format == "zarr3"; }

bool keeps_storage(const array& from, const copy_options& options) {
  const array_state& state = from.state();
  if (!is_zarr(state.format)) return false;
  if (options.zarr_format != 0 && options.zarr_format != format_of(state.format)) return false;
  if (!options.codecs_json.empty() || options.auto_shards) return false;
  if (options.no_shards && state.shards) return false;
  if (options.chunks && !(*options.chunks == state.chunks)) return false;
  if (options.chunks && !options.shards && state.shards) return false;
  return !options.shards || (state.shards && *options.shards == *state.shards);
}

/// Whether groups and metadata are created: of several processes, one does that.
bool makes_metadata(const copy_options& options) {
  return options.part.stage == copy_stage::whole || options.part.stage == copy_stage::prepare;
}

/// The options with which each stage of a copy by several processes can be repeated.
result<copy_options> of_stage(const copy_options& options) {
  const copy_part& which = options.part;
  if (which.stage == copy_stage::whole) return options;
  if (which.count == 0 || which.number >= which.count)
    return error(errc::invalid_argument, fmt::format("part {} of {} does not exist", which.number, which.count));
  if (options.overwrite)
    return error(errc::invalid_argument,
                 "a copy by several processes does not overwrite: remove the node at its destination first");
  if (options.memory_bytes == 0 || options.threads == 0)
    return error(errc::invalid_argument,
                 "processes that share a copy need memory_bytes and threads: their plans must be equal");
  copy_options out = options;
  out.resume = options.resume || which.stage != copy_stage::prepare;
  return out;
}

/// The options for one array: the rules for chunks and shards as lengths.
result<copy_options> options_of(const array& from, const copy_options& options) {
  copy_options out = options;
  if (!options.chunk_rule && !options.shard_rule) return out;
  const array_state& state = from.state();
  const std::uint64_t item_bytes = state.type.variable_length() ? 0 : state.type.item_bytes();
  if (options.chunk_rule) {
    PENSTOCK_ASSIGN(out.chunks, options.chunk_rule->resolve(state.shape, from.dimension_names(), item_bytes));
  }
  if (options.shard_rule) {
    if (!out.chunks && !is_zarr(state.format)) out.chunks = state.chunks;
    PENSTOCK_ASSIGN(out.shards, options.shard_rule->resolve_shards(state.shape, from.dimension_names(), item_bytes,
                                                                   out.chunks ? *out.chunks : state.chunks));
  }
  return out;
}

/// A node of the source and the destination of its copy.
struct planned_node {
  node from;
  std::string prefix;    ///< of the destination's keys
  std::string path;      ///< within the copied node
  bool as_text = false;  ///< the copy has text: `array_copy::is_text`
};

/// Opens every node of the source and checks it against the options: an impossible copy fails before it writes.
class copy_plan {
 public:
  copy_plan(const std::shared_ptr<store>& to, const copy_options& options) : to_(to), options_(options) {}

  result<> add(const node& from, const std::string& prefix, const std::string& path, int depth) {
    if (const auto* a = std::get_if<array>(&from)) {
      const auto as_text = check(*a, prefix, path);
      if (!as_text.ok()) return as_text.error().clone().note(fmt::format("copying '{}'", a->uri()));
      nodes.push_back({from, prefix, path, *as_text});
      return {};
    }
    const group& g = std::get<group>(from);
    const std::string& identity = g.state().identity;
    if (!identity.empty() && !groups_.insert(identity).second && ++repeated_ > kMostRepeated) {
      return error(errc::unsupported, fmt::format("groups that are reached by more than {} further links: the copy has "
                                                  "no links, and each of them would be a group of its own",
                                                  kMostRepeated));
    }
    nodes.push_back({from, prefix, path});
    ++report.groups;
    PENSTOCK_ASSIGN(const std::vector<std::string> names, g.keys());
    if (depth == kMaxDepth && !names.empty())
      return error(errc::unsupported, fmt::format("groups nested deeper than {}: '{}'", kMaxDepth, g.uri()));
    for (const std::string& name : names) {
      const std::string inner = path.empty() ? name : path + "/" + name;
      const result<node> child = open(g, name);
      if (child.ok() && g.format() == kHdf5Format && is_without_form(*child)) {
        const auto* const a = std::get_if<array>(&*child);
        report.omitted.push_back({inner, is_nested_list(a->type())
                                             ? "Zarr stores lists of single items of a fixed size only"
                                             : "Zarr v3 has no data type for lists of variable length"});
      } else if (child.ok()) {
        PENSTOCK_TRY(add(*child, prefix + name + "/", inner, depth + 1));
      } else if (g.format() == kHdf5Format && child.error().code() == errc::unsupported) {
        report.omitted.push_back({inner, child.error().message()});
      } else {
        return child.error().clone();
      }
    }
    return {};
  }

  // Whether a dataset cannot be stored in the format of the copy.
  bool is_without_form(const node& of) const {
    const auto* const a = std::get_if<array>(&of);
    if (a == nullptr) return false;
    return has_long_doubles(a->type()) || is_nested_list(a->type()) ||
           (a->type().kind() == dtype_kind::variable_list && options_.zarr_format != 2);
  }

  /// \error invalid_argument  A rule names a dimension that no array has.
  result<> check_names() const {
    for (const std::optional<chunk_lengths>* rule : {&options_.chunk_rule, &options_.shard_rule}) {
      for (const std::string& name : *rule ? (*rule)->names() : std::vector<std::string>()) {
        const auto has = [&](const planned_node& each) {
          const auto* const a = std::get_if<array>(&each.from);
          return a != nullptr && chunk_lengths::has_dimension(name, a->shape().size(), a->dimension_names());
        };
        if (std::none_of(nodes.begin(), nodes.end(), has)) {
          return with_suggestion(
              error(errc::invalid_argument, fmt::format("no array that is copied has a dimension '{}'", name)), name,
              dimension_names());
        }
      }
    }
    return {};
  }

  std::vector<planned_node> nodes;
  copy_report report;  ///< of the planned work

 private:
  /// Those of all arrays.
  std::vector<std::string> dimension_names() const {
    std::vector<std::string> out;
    for (const planned_node& each : nodes)
      if (const auto* const a = std::get_if<array>(&each.from))
        for (const auto& name : a->dimension_names())
          if (name) out.push_back(*name);
    return out;
  }

  // Whether the copy has text. A dry run reads no elements.
  result<bool> check(const array& from, const std::string& prefix, const std::string& path) {
    ++report.arrays;
    PENSTOCK_ASSIGN(const copy_options options, options_of(from, options_));
    if (keeps_storage(from, options)) return false;
    array_copy work{from, to_, prefix, path, options, report};
    if (!options.check_only) {
      PENSTOCK_ASSIGN(work.as_text, work.is_text());
    }
    PENSTOCK_TRY(work.check_elements());
    return work.as_text;
  }

  const std::shared_ptr<store>& to_;
  const copy_options& options_;
  std::set<std::string> groups_;  // by identity
  std::size_t repeated_ = 0;
};

class copier {
 public:
  copier(std::shared_ptr<store> to, const copy_options& options) : to_(std::move(to)), options_(options) {}

  /// \param above  The part of the destination root's prefix that `to` does not have.
  result<> run(const copy_plan& plan, std::size_t above) {
    for (const planned_node& each : plan.nodes) {
      const std::string prefix = each.prefix.substr(above);
      if (const auto* a = std::get_if<array>(&each.from)) {
        PENSTOCK_TRY(copy_array(*a, prefix, each));
      } else if (makes_metadata(options_)) {
        PENSTOCK_TRY(copy_group(std::get<group>(each.from), prefix));
      }
    }
    return {};
  }

  copy_report report;

 private:
  result<> copy_array(const array& from, const std::string& prefix, const planned_node& planned) {
    ++report.arrays;
    PENSTOCK_ASSIGN(const copy_options options, options_of(from, options_));
    const array_copy work{from, to_, prefix, planned.path, options, report, planned.as_text};
    const copy_stage stage = options.part.stage;
    result<> done;
    if (stage != copy_stage::compare) done = keeps_storage(from, options) ? work.copy_objects() : work.copy_elements();
    const bool compares = stage == copy_stage::whole || stage == copy_stage::compare;
    if (done.ok() && options.verify && compares) done = work.compare();
    if (!done.ok()) return std::move(done).error().note(fmt::format("copying '{}'", from.uri()));
    return {};
  }

  result<> copy_group(const group& from, const std::string& prefix) {
    ++report.groups;
    open_options where;
    where.context = from.state().context;
    where.path = prefix;
    where.use_consolidated = consolidation::never;
    if (options_.resume) {
      auto there = open(std::shared_ptr<const store>(to_), where);
      if (there.ok() && std::holds_alternative<group>(*there)) return {};
      if (there.ok())
        return error(errc::invalid_argument,
                     fmt::format("'{}' is an array, not a group", child_uri(to_->uri(), prefix)));
      if (there.error().code() != errc::not_found) return std::move(there).error();
    }
    create_group_options made;
    made.context = from.state().context;
    made.path = prefix;
    made.zarr_format = options_.zarr_format != 0 ? options_.zarr_format : format_of(from.format());
    made.attributes_json = from.attributes_json();
    auto group = create_group(to_, made);
    if (!group.ok()) return std::move(group).error();
    return {};
  }

  std::shared_ptr<store> to_;
  const copy_options& options_;
};

// The store and the location in it, as a text that is equal for two names of one location.
std::string place_text(const store& in, const std::string& prefix) { return real_place(child_uri(in.uri(), prefix)); }

// The documents of the nodes that are copied, if these are in stores.
std::vector<node_document> documents_of(const copy_plan& plan) {
  std::vector<node_document> out;
  for (const planned_node& each : plan.nodes) {
    if (const auto* a = std::get_if<array>(&each.from)) {
      const array_state& state = a->state();
      if (is_zarr(state.format))
        out.push_back({state.store.get(), state.prefix + std::string(state.format == "zarr2" ? kZarrayKey : kZarrKey)});
    } else {
      const group_state& state = std::get<group>(each.from).state();
      if (!state.members)
        out.push_back({state.store.get(), state.prefix + std::string(state.format == "zarr2" ? kZgroupKey : kZarrKey)});
    }
  }
  return out;
}

struct copy_source {
  std::shared_ptr<penstock::context> context;
  std::shared_ptr<const store> in;
  std::string place;
  bool in_zarr = true;
  int format = 3;
};

copy_source source_of(const node& from) {
  if (const auto* a = std::get_if<array>(&from)) {
    const array_state& state = a->state();
    // The store of a file is its folder.
    const bool in_zarr = is_zarr(state.format);
    std::string where = in_zarr ? place_text(*state.store, state.prefix) : real_place(state.uri);
    return {state.context, state.store, std::move(where), in_zarr, format_of(state.format)};
  }
  const group_state& state = std::get<group>(from).state();
  const bool in_zarr = !state.members;
  std::string where = in_zarr ? place_text(*state.store, state.prefix) : real_place(state.uri);
  return {state.context, state.store, std::move(where), in_zarr, format_of(state.format)};
}

/// Whether the destination exists and must be replaced.
/// \error invalid_argument  It must not be replaced.
result<bool> is_to_go(const copy_source& source, const place& to, const std::string& prefix,
                      const copy_options& options) {
  open_options where;
  where.context = source.context;
  where.path = prefix;
  where.use_consolidated = consolidation::never;
  const auto there = open(std::shared_ptr<const store>(to.store), where);
  if (!there.ok() && there.error().code() == errc::not_found) return false;
  if (options.resume) return false;  // each node is compared in its turn
  if (options.overwrite) {
    PENSTOCK_ASSIGN(const std::vector<std::string_view> documents, documents_at(*to.store, prefix));
    return !documents.empty();
  }
  if (!there.ok()) return there.error().clone();
  return error(errc::invalid_argument,
               fmt::format("'{}' already exists: overwrite it, or resume a copy", child_uri(to.store->uri(), prefix)));
}

result<> consolidate(const std::shared_ptr<store>& in, const std::string& prefix,
                     const std::shared_ptr<penstock::context>& with) {
  open_options where;
  where.context = with;
  where.path = prefix;
  PENSTOCK_ASSIGN(const group consolidated, consolidate_metadata(in, where));
  return in->flush();
}

}  // namespace

result<copy_report> copy(const node& from, const place& to, const copy_options& given) {
  PENSTOCK_ASSIGN(const copy_options options, of_stage(given));
  if (options.zarr_format != 0 && options.zarr_format != 2 && options.zarr_format != 3) {
    return error(errc::invalid_argument, fmt::format("zarr_format must be 2 or 3, got {}", options.zarr_format));
  }
  if (options.overwrite && options.resume)
    return error(errc::invalid_argument, "a copy either overwrites its destination or resumes, not both");
  if (!to.store->traits().writable)
    return error(errc::read_only, fmt::format("this store cannot be written to: {}", to.store->uri()));
  const std::string prefix = prefix_of(to.path);
  const copy_source source = source_of(from);
  const std::string target = place_text(*to.store, prefix);
  const bool may_be_one = source.in == to.store || source.in->uri().find("://") != std::string::npos;
  const bool within = source.place.starts_with(target) && (source.in_zarr || source.place == target);
  if (may_be_one && (within || target.starts_with(source.place)))
    return error(errc::invalid_argument, fmt::format("'{}' cannot be copied into itself: '{}'",
                                                     std::visit([](const auto& each) { return each.uri(); }, from),
                                                     child_uri(to.store->uri(), prefix)));

  copy_plan plan(to.store, options);
  PENSTOCK_TRY(plan.add(from, prefix, "", 0));
  PENSTOCK_TRY(plan.check_names());
  PENSTOCK_ASSIGN(const bool replaces, is_to_go(source, to, prefix, options));
  if (options.check_only) return std::move(plan.report);
  const bool is_group = std::holds_alternative<group>(from);
  // Parent groups: an array's objects and documents are put without checking for them.
  if ((!is_group || replaces) && makes_metadata(options))
    PENSTOCK_TRY(make_parents(*to.store, prefix, options.zarr_format != 0 ? options.zarr_format : source.format));
  const copy_stage stage = options.part.stage;
  const bool is_last = stage == copy_stage::whole || stage == copy_stage::finish;
  const bool consolidated = is_last && is_group && std::get<group>(from).consolidated();
  if (replaces) {
    PENSTOCK_ASSIGN(const std::unique_ptr<node_replacement> fresh, node_replacement::begin(to.store, prefix));
    if (fresh) {
      copier all(fresh->in(), options);
      all.report.omitted = plan.report.omitted;
      PENSTOCK_TRY(all.run(plan, prefix.size()));
      if (consolidated) PENSTOCK_TRY(consolidate(fresh->in(), "", source.context));
      PENSTOCK_TRY(fresh->commit());
      return all.report;
    }
    PENSTOCK_ASSIGN(const node_objects replaced, node_objects::find(*to.store, prefix));
    PENSTOCK_TRY(check_apart(documents_of(plan), *to.store, prefix, replaced));
    PENSTOCK_TRY(erase_node(*to.store, prefix, replaced, !is_group));
  }
  copier all(to.store, options);
  all.report.omitted = plan.report.omitted;
  auto done = all.run(plan, 0);
  auto flushed = to.store->flush();  // also after a failure: the copied part can be continued
  if (!done.ok()) return std::move(done).error();
  PENSTOCK_TRY(std::move(flushed));
  if (consolidated) PENSTOCK_TRY(consolidate(to.store, prefix, source.context));
  return all.report;
}

}  // namespace penstock::inline v0
