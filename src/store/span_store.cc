#include "store/span_store.h"

#include <cstring>

#include <penstock/extend/store.h>

namespace penstock::inline v0 {
namespace {

version only_version() noexcept {
  version out;
  out.word[0] = 1;
  return out;
}

}  // namespace

store_traits span_store::traits() const {
  store_traits traits;
  traits.versions = true;
  traits.sizes = true;
  traits.blocking = false;
  traits.lends_bytes = true;
  return traits;
}

void span_store::read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const {
  for (const byte_read& one : reads) {
    auto done = stop.stop_requested() ? error(errc::cancelled, "the read was stopped") : read_one(one);
    sink.complete(one.tag, std::move(done));
  }
}

// A reader owns the store, and so the bytes.
result<read_done> span_store::read_one(const byte_read& wanted) const {
  PENSTOCK_TRY(check_key(wanted.key));
  if (wanted.key != key_) return error(errc::not_found, "no such object");
  read_done done;
  done.seen = only_version();
  done.object_size = bytes_.size();
  if (!is_expected(wanted, done.seen)) return version_has_changed();
  PENSTOCK_ASSIGN(const byte_extent extent, find_extent(wanted, bytes_.size()));
  const auto bytes = bytes_.subspan(static_cast<std::size_t>(extent.offset), static_cast<std::size_t>(extent.length));
  if (!wanted.destination.empty() && !bytes.empty()) {
    std::memcpy(wanted.destination.data(), bytes.data(), bytes.size());
    done.bytes = wanted.destination;
  } else {
    done.bytes = bytes;
  }
  return done;
}

result<> span_store::list(std::string_view prefix, listing, key_sink& sink) const {
  PENSTOCK_TRY(check_prefix(prefix));
  if (prefix.empty()) sink.key(key_, bytes_.size());
  return {};
}

}  // namespace penstock::inline v0
