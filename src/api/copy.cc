#include <penstock/copy.h>

#include <penstock/create.h>

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "api/array_state.h"
#include "api/copy_work.h"
#include "api/zarr_nodes.h"

namespace penstock::inline v0 {
namespace {

/// Groups nested deeper than this are a loop of links.
constexpr int kMaxDepth = 64;

int format_of(const std::string& format) { return format == "zarr2" ? 2 : 3; }

class copier {
 public:
  copier(const place& to, const copy_options& options) : to_(to.store), options_(options) {}

  result<> visit(const node& from, const std::string& prefix, const std::string& path, int depth) {
    if (const auto* a = std::get_if<array>(&from)) return copy_array(*a, prefix, path);
    const group& g = std::get<group>(from);
    PENSTOCK_TRY(copy_group(g, prefix));
    PENSTOCK_ASSIGN(const std::vector<std::string> names, g.keys());
    if (depth == kMaxDepth && !names.empty())
      return error(errc::unsupported, fmt::format("groups nested deeper than {}: '{}'", kMaxDepth, g.uri()));
    for (const std::string& name : names) {
      PENSTOCK_ASSIGN(const node child, open(g, name));
      PENSTOCK_TRY(visit(child, prefix + name + "/", path.empty() ? name : path + "/" + name, depth + 1));
    }
    return {};
  }

  // Erases what stands there, or refuses.
  result<> make_room(const std::string& prefix, const std::shared_ptr<context>& with, int zarr_format) {
    open_options where;
    where.context = with;
    where.path = prefix;
    where.use_consolidated = consolidation::never;
    const auto there = open(std::shared_ptr<const store>(to_), where);
    if (!there.ok() && there.error().code() == errc::not_found) return {};
    if (options_.resume) return {};  // each node is compared when its turn comes
    if (!options_.overwrite) {
      if (!there.ok()) return there.error().clone();
      return error(errc::invalid_argument, fmt::format("something stands at '{}': overwrite it, or resume a copy",
                                                       child_uri(to_->uri(), prefix)));
    }
    create_group_options room;
    room.context = with;
    room.path = prefix;
    room.zarr_format = zarr_format;
    room.overwrite = true;
    PENSTOCK_ASSIGN(const group made, create_group(to_, room));
    for (const std::string_view document : {"zarr.json", ".zgroup", ".zattrs"})
      PENSTOCK_TRY(to_->erase(prefix + std::string(document), {}));
    return {};
  }

  copy_report report;

 private:
  bool keeps_storage(const array& from) const {
    const array_state& state = from.state();
    if (options_.zarr_format != 0 && options_.zarr_format != format_of(state.format)) return false;
    if (!options_.codecs_json.empty() || options_.auto_shards) return false;
    if (options_.no_shards && state.shards) return false;
    if (options_.chunks && !(*options_.chunks == state.chunks)) return false;
    if (options_.chunks && !options_.shards && state.shards) return false;
    if (options_.shards && !(state.shards && *options_.shards == *state.shards)) return false;
    return state.format == "zarr2" || state.format == "zarr3";
  }

  result<> copy_array(const array& from, const std::string& prefix, const std::string& path) {
    ++report.arrays;
    const array_copy work{from, to_, prefix, path, options_, report};
    auto done = keeps_storage(from) ? work.copy_objects() : work.copy_elements();
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
        return error(errc::invalid_argument, fmt::format("an array stands at '{}'", child_uri(to_->uri(), prefix)));
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

// The store and the place in it, as a text that two names of one place share.
std::string place_text(const store& in, const std::string& prefix) { return child_uri(in.uri(), prefix) + "/"; }

}  // namespace

result<copy_report> copy(const node& from, const place& to, const copy_options& options) {
  if (options.zarr_format != 0 && options.zarr_format != 2 && options.zarr_format != 3) {
    return error(errc::invalid_argument, fmt::format("zarr_format must be 2 or 3, it is {}", options.zarr_format));
  }
  if (options.overwrite && options.resume)
    return error(errc::invalid_argument, "a copy overwrites what stands at its destination, or resumes: not both");
  if (!to.store->traits().writable)
    return error(errc::read_only, fmt::format("this store cannot be written to: {}", to.store->uri()));
  const std::string prefix = prefix_of(to.path);
  const auto state = [](const node& which) {
    if (const auto* a = std::get_if<array>(&which))
      return std::tuple(a->state().context, a->state().store, a->state().prefix, format_of(a->format()));
    const group& g = std::get<group>(which);
    return std::tuple(g.state().context, g.state().store, g.state().prefix, format_of(g.format()));
  };
  const auto [context, store, source_prefix, source_format] = state(from);
  const std::string source = place_text(*store, source_prefix), target = place_text(*to.store, prefix);
  const bool may_be_one = store == to.store || store->uri().find("://") != std::string::npos;
  if (may_be_one && (source.starts_with(target) || target.starts_with(source)))
    return error(errc::invalid_argument, fmt::format("'{}' cannot be copied into itself: '{}'", source, target));

  copier all(to, options);
  PENSTOCK_TRY(all.make_room(prefix, context, options.zarr_format != 0 ? options.zarr_format : source_format));
  if (std::holds_alternative<array>(from) && !prefix.empty()) {
    // Groups on the way: an array's objects and documents are put without asking for them.
    const std::size_t slash = prefix.find_last_of('/', prefix.size() - 2);
    create_group_options parent;
    parent.context = context;
    parent.path = slash == std::string::npos ? "" : prefix.substr(0, slash);
    parent.zarr_format = options.zarr_format != 0 ? options.zarr_format : source_format;
    auto made = create_group(to.store, parent);
    if (!made.ok() && made.error().code() != errc::invalid_argument) return std::move(made).error();
  }
  auto done = all.visit(from, prefix, "", 0);
  auto flushed = to.store->flush();  // also where it failed: what is there can be gone on with
  if (!done.ok()) return std::move(done).error();
  PENSTOCK_TRY(std::move(flushed));
  const group* const root = std::get_if<group>(&from);
  if (root != nullptr && root->consolidated()) {
    open_options where;
    where.context = context;
    where.path = prefix;
    PENSTOCK_ASSIGN(const group consolidated, consolidate_metadata(to.store, where));
    PENSTOCK_TRY(to.store->flush());
  }
  return all.report;
}

}  // namespace penstock::inline v0
