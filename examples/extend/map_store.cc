// A store: objects in this process's memory, and the scheme `toy:` that names them.
//
// All stores of one name are the same store: `toy:weather/2024.zarr` is the path `2024.zarr` of the store `weather`.

#include <penstock/extend/store.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "extensions.h"

namespace ps = penstock;

namespace {

class map_store final : public ps::store {
 public:
  explicit map_store(std::string name) : name_(std::move(name)) {}

  ps::store_traits traits() const override {
    ps::store_traits out;
    out.versions = true;           // `read_done::seen`, and conditions of `put`
    out.sizes = true;              // `read_done::object_size`
    out.inline_completion = true;  // reads complete before `read` returns
    out.lends_bytes = true;        // reads without a destination return the object itself
    out.blocking = false;          // no read waits for a device or a network
    out.writable = true;
    return out;
  }
  std::string uri() const override { return "toy:" + name_; }

  void read(std::span<const ps::byte_read> reads, ps::completion_sink& sink, std::stop_token stop) const override {
    for (const ps::byte_read& each : reads) sink.complete(each.tag, read_one(each, stop));
  }

  ps::result<ps::version> put(std::string_view key, std::span<const ps::part> parts,
                              const ps::write_condition& condition) override {
    PENSTOCK_TRY(ps::check_key(key));
    auto made = std::make_shared<object>();
    for (const ps::part& each : parts) made->bytes.insert(made->bytes.end(), each.begin(), each.end());
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(key);
    PENSTOCK_TRY(ps::check_condition(condition, at == objects_.end() ? nullptr : &at->second->seen));
    made->seen.word[0] = ++generation_;
    objects_.insert_or_assign(std::string(key), made);
    return made->seen;
  }

  ps::result<> erase(std::string_view key, const ps::write_condition& condition) override {
    PENSTOCK_TRY(ps::check_key(key));
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(key);
    if (at == objects_.end()) return {};
    PENSTOCK_TRY(ps::check_condition(condition, &at->second->seen));
    objects_.erase(at);
    return {};
  }

  ps::result<> list(std::string_view prefix, ps::listing what, ps::key_sink& sink) const override {
    PENSTOCK_TRY(ps::check_prefix(prefix));
    ps::key_listing found(prefix, what);
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [key, value] : objects_) found.add(key, value->bytes.size());
    }
    found.report(sink);
    return {};
  }

 private:
  struct object {
    std::vector<std::byte> bytes;
    ps::version seen;
  };

  // Lent bytes do not change: `put` makes a new object, and the reader keeps the old one.
  ps::result<ps::read_done> read_one(const ps::byte_read& wanted, const std::stop_token& stop) const {
    if (stop.stop_requested()) return ps::error(ps::errc::cancelled, "the read was stopped");
    PENSTOCK_TRY(ps::check_key(wanted.key));
    std::shared_ptr<const object> found;
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = objects_.find(wanted.key); at != objects_.end()) found = at->second;
    }
    if (!found) return ps::error(ps::errc::not_found, "no such object");
    return ps::answer_from(wanted, found->bytes, found->seen, found);
  }

  std::string name_;
  mutable std::mutex mutex_;
  std::uint64_t generation_ = 0;
  std::map<std::string, std::shared_ptr<const object>, std::less<>> objects_;
};

class scheme final : public ps::uri_scheme {
 public:
  std::string_view name() const noexcept override { return "toy"; }
  ps::result<ps::place> find(std::string_view uri, const ps::place_options&) const override {
    std::string_view rest = uri.substr(name().size() + 1);
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    if (slash == 0) return ps::error(ps::errc::invalid_argument, "a URI 'toy:NAME/PATH' needs a name");
    const std::lock_guard lock(mutex_);
    auto& store = stores_[std::string(rest.substr(0, slash))];
    if (!store) store = std::make_shared<map_store>(std::string(rest.substr(0, slash)));
    return ps::place{store, std::string(rest.substr(std::min(slash + 1, rest.size())))};
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<map_store>> stores_;
};

}  // namespace

std::shared_ptr<const ps::uri_scheme> toy_scheme() { return std::make_shared<scheme>(); }
