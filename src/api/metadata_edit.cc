#include "api/metadata_edit.h"

#include <fmt/format.h>

#include <cstring>

#include "api/zarr_nodes.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/zarr/zarr_grid.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kV3Key = "zarr.json", kV2Key = ".zarray";

/// Another store, but for one document.
class overlaid_store final : public store {
 public:
  overlaid_store(std::shared_ptr<store> under, std::string key, std::string document)
      : under_(std::move(under)), key_(std::move(key)), document_(std::move(document)) {}

  store_traits traits() const override { return under_->traits(); }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override {
    for (const byte_read& one : reads) {
      if (one.key != key_) {
        under_->read({&one, 1}, sink, stop);
      } else {
        sink.complete(one.tag, read_document(one));
      }
    }
  }
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override {
    return under_->put(key, parts, condition);
  }
  result<std::unique_ptr<staged_object>> stage(std::string_view key, std::span<const part> parts,
                                               const write_condition& condition) override {
    return under_->stage(key, parts, condition);
  }
  std::vector<result<version>> publish(std::span<const std::unique_ptr<staged_object>> staged) override {
    return under_->publish(staged);
  }
  result<> erase(std::string_view key, const write_condition& condition) override {
    return under_->erase(key, condition);
  }
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override {
    return under_->list(prefix, what, sink);
  }
  result<> flush() override { return under_->flush(); }
  std::string uri() const override { return under_->uri(); }

 private:
  result<read_done> read_document(const byte_read& wanted) const {
    if (!wanted.range.whole() || wanted.buffer == nullptr)
      return error(errc::internal, "a metadata document is read whole");
    PENSTOCK_ASSIGN(const std::span<std::byte> room, wanted.buffer->reserve(document_.size()));
    std::memcpy(room.data(), document_.data(), document_.size());
    read_done done;
    done.bytes = room.first(document_.size());
    done.object_size = document_.size();
    return done;
  }

  std::shared_ptr<store> under_;
  std::string key_, document_;
};

std::shared_ptr<store> shared_writable_store(const array_state& state) {
  return std::const_pointer_cast<store>(state.store);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

result<array> open_from(const array_state& state, std::shared_ptr<const store> from) {
  open_options options;
  options.context = state.context;
  options.path = state.prefix;
  options.cache_unversioned_indexes = state.caches_indexes;
  return open_array(std::move(from), options);
}

}  // namespace

result<stored_metadata> read_stored_metadata(const array_state& state) {
  stored_metadata out;
  const store& from = *state.store;
  out.key = state.prefix + std::string(state.format == "zarr2" ? kV2Key : kV3Key);
  auto read = read_and_wait(from, out.key, {}, kMaxMetadataBytes);
  if (!read.ok()) return std::move(read).error().note(read_note(out.key, {}));
  auto parsed = json::parse({reinterpret_cast<const char*>(read->bytes.data()), read->bytes.size()});
  if (!parsed.ok()) return std::move(parsed).error().note(read_note(out.key, {}));
  out.document = std::move(*parsed);
  if (out.document.as_object() == nullptr)
    return error(errc::corrupt_data, "metadata should be an object, is " + std::string(out.document.kind_name()))
        .note(read_note(out.key, {}));
  out.seen = std::move(read->seen);
  return out;
}

result<extents> shape_of(const stored_metadata& metadata) {
  const json* member = metadata.document.find("shape");
  const json::array_t* list = member == nullptr ? nullptr : member->as_array();
  const auto wrong = [&] {
    return error(errc::corrupt_data, "'shape' should be a list of sizes").note(read_note(metadata.key, {}));
  };
  if (list == nullptr || list->size() > kMaxRank) return wrong();
  extents out;
  for (const json& each : *list) {
    std::uint64_t size = 0;
    if (!each.get(size)) return wrong();
    out.push_back(size);
  }
  return out;
}

result<> set_shape(stored_metadata& metadata, const extents& shape) {
  json::object_t members = *metadata.document.as_object();
  for (auto& [name, value] : members) {
    if (name == "shape") {
      json::array_t sizes;
      for (const std::uint64_t size : shape) sizes.emplace_back(size);
      value = std::move(sizes);
    } else if (name == "chunk_grid") {
      PENSTOCK_ASSIGN(value, resized_zarr_grid(value, shape));
    }
  }
  metadata.document = std::move(members);
  return {};
}

result<> put_stored_metadata(const array_state& state, const stored_metadata& metadata, bool durable,
                             const write_guard* guard) {
  const std::string text = metadata.document.dump(2);
  const part bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
  write_condition condition;
  condition.durable = durable;
  condition.ordered = true;  // a shape counts what was written before
  condition.guard = guard;
  if (metadata.seen.known()) {
    condition.what = write_condition::kind::must_match;
    condition.expected = metadata.seen;
  }
  auto put = writable_store(state).put(metadata.key, {&bytes, 1}, condition);
  if (!put.ok()) return std::move(put).error().note(fmt::format("writing '{}'", metadata.key));
  return {};
}

result<array> open_as(const array_state& state, const stored_metadata& metadata) {
  return open_from(
      state, std::make_shared<overlaid_store>(shared_writable_store(state), metadata.key, metadata.document.dump()));
}

result<array> open_resized(const array_state& state, const stored_metadata& metadata, const extents& shape) {
  auto out = open_as(state, metadata);
  if (out.ok() || out.error().code() != errc::corrupt_data) return out;
  // What is stored was fine: it is the new shape that is not (a new shard that its chunks do not divide).
  error why(errc::invalid_argument,
            fmt::format("the array cannot get the shape {}: {}", to_string(shape), out.error().message()));
  for (const std::string& note : out.error().notes()) why.note(note);
  return why;
}

result<array> open_again(const array_state& state) { return open_from(state, state.store); }

store& writable_store(const array_state& state) noexcept {
  return const_cast<store&>(*state.store);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

error name_array(error what, const array_state& state) { return std::move(what).note("array '" + state.uri + "'"); }

}  // namespace penstock::inline v0
