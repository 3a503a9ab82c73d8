#include "store/http_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <penstock/extend/store.h>
#include "base/checked.h"
#include "base/counted.h"

namespace penstock::inline v0 {
namespace {

/// An attempt that returned this much more than those before it counts as progress.
constexpr std::uint64_t kProgress = std::uint64_t{64} << 10;

/// A response that is at most this long takes little more than the latency.
constexpr std::uint64_t kShort = std::uint64_t{64} << 10;

/// Objects whose redirect targets are remembered; beyond this number, all are dropped.
constexpr std::size_t kMostTargets = 4096;

class http_read final : public http_exchange {
 public:
  http_read(std::shared_ptr<const http_objects> from, const byte_read& wanted, completion_sink& sink)
      : from_(std::move(from)), wanted_(wanted), sink_(sink), checks_only_(wanted.range.length == 0) {}

  result<> prepare(http_request& out) override;
  result<> head(const http_head& head) override;
  result<appetite> body(std::span<const std::byte> bytes) override;
  result<ending> end() override;
  result<ending> failed(const http_head& head, std::string_view body, bool doubtful) override;
  void led_to(const std::string& url) override {
    if (from_->redirects && !checks_only_) from_->redirects->set(wanted_.key, url);
  }
  bool is_short() const noexcept override { return (whole() ? wanted_.max_bytes : wanted_.range.length) <= kShort; }
  bool has_progressed() override {
    if (received_ < progress_ + kProgress) return false;
    progress_ = received_;
    return true;
  }
  void finish(result<> outcome) noexcept override {
    if (!outcome.ok()) return sink_.complete(wanted_.tag, std::move(outcome).error());
    sink_.complete(wanted_.tag, std::move(done_));
  }

 private:
  bool whole() const noexcept { return wanted_.range.whole(); }
  result<> head_of_part(const http_head& head);
  result<> head_of_all(const http_head& head);
  result<> take_room(std::uint64_t size);
  result<> gather(std::span<const std::byte> bytes);

  std::shared_ptr<const http_objects> from_;
  const byte_read wanted_;
  completion_sink& sink_;
  const bool checks_only_;
  bool asks_by_get_ = false;  // check the version by GET, because HEAD was refused
  std::string region_;        // of the current request

  read_done done_;
  std::optional<byte_extent> extent_;  // extent in the object; known from the first response that has it
  std::span<std::byte> room_;
  std::uint64_t gathered_ = 0;  // bytes in `room_` of an object whose size is not known
  bool gathers_ = false;
  std::uint64_t skip_ = 0;
  std::uint64_t received_ = 0;  // received bytes of the extent
  std::uint64_t progress_ = 0;  // the most of them after an attempt: bytes that are received again do not count
  bool sends_more_ = false;     // the response is the whole object, the extent a part of it
};

result<> http_read::prepare(http_request& out) {
  const byte_range& range = wanted_.range;
  if (!whole() && !checks_only_) {
    std::uint64_t end = 0;
    if (!range.from_end && (!checked_add(range.offset, range.length, end) || range.length > wanted_.max_bytes))
      return error(errc::corrupt_data, fmt::format("the range {} is larger than any object", to_string(range)));
    if (range.length > wanted_.max_bytes)
      return error(errc::corrupt_data,
                   fmt::format("the range takes {} bytes, at most {} are allowed", range.length, wanted_.max_bytes));
  }
  // The bytes received so far are kept if the same object can be requested: its tag guarantees it.
  const std::string_view seen_tag = entity_tag_of(done_.seen);
  const bool lacks_the_end = extent_ && received_ < extent_->length;  // else only the mark of its end was missing
  if (seen_tag.empty() || !lacks_the_end || sends_more_ || gathers_) {
    received_ = 0;
    extent_.reset();
  }
  gathered_ = 0;
  gathers_ = sends_more_ = false;
  out.method = checks_only_ && !asks_by_get_ ? http_method::head : http_method::get;
  std::string_view tag = wanted_.expected == nullptr ? std::string_view() : entity_tag_of(*wanted_.expected);
  if (received_ != 0) {
    tag = seen_tag;
    out.headers.push_back(
        {"Range", fmt::format("bytes={}-{}", extent_->offset + received_, extent_->offset + extent_->length - 1)});
  } else if (checks_only_) {
    if (asks_by_get_) out.headers.push_back({"Range", "bytes=0-0"});
  } else if (!whole()) {
    out.headers.push_back({"Range", range.from_end
                                        ? fmt::format("bytes=-{}", range.length)
                                        : fmt::format("bytes={}-{}", range.offset, range.offset + range.length - 1)});
  }
  if (!tag.empty()) out.headers.push_back({"If-Match", std::string(tag)});
  const bool is_known = wanted_.expected != nullptr && wanted_.expected->known();
  if (from_->redirects && is_known && out.method == http_method::get)
    out.redirect = from_->redirects->find(wanted_.key);
  PENSTOCK_TRY(from_->address(wanted_.key, out));
  region_ = out.region;
  return {};
}

result<> http_read::head(const http_head& head) {
  const std::string_view coding = head.find("content-encoding");
  if (!coding.empty() && coding != "identity" && coding != "aws-chunked")
    return error(
        errc::unsupported,
        fmt::format("the server sends the object encoded ({}), although its own bytes were requested", coding));
  version seen = version_of(head, wanted_.expected);
  if (!is_expected(wanted_, seen)) return version_has_changed();
  if (received_ != 0 && !(seen == done_.seen)) return version_has_changed();
  done_.seen = std::move(seen);
  done_.seen_is_last = !entity_tag_of(done_.seen).empty();  // dates tick once a second
  if (head.status == 206) return head_of_part(head);
  if (head.status != 200) return error(errc::io_error, fmt::format("the server answered {}", head.status));
  return head_of_all(head);
}

// 206: some bytes of the object. They must be the requested ones, and as many as the server announced.
result<> http_read::head_of_part(const http_head& head) {
  const auto said = parse_content_range(head.find("content-range"));
  if (!said || !said->part)
    return error(errc::io_error, "the server sends a part of the object without naming its range");
  const auto [offset, length] = *said->part;
  if (const auto sent = head.content_length(); sent && *sent != length)
    return error(errc::io_error,
                 fmt::format("the server contradicts itself: {} bytes are a range of {}", *sent, length));
  done_.object_size = said->total.value_or(byte_range::kAll);
  if (checks_only_) return {};
  if (whole() && received_ == 0)
    return error(errc::io_error, "the server sends a part of the object, although all of it was requested");
  byte_extent extent;
  if (said->total) {
    PENSTOCK_ASSIGN(extent, find_extent(wanted_, *said->total));
  } else if (wanted_.range.from_end) {
    return error(errc::io_error, "the server does not report the object's size, although its end was requested");
  } else {
    extent = {wanted_.range.offset, wanted_.range.length};
    if (wanted_.may_end_early) extent.length = std::min(extent.length, received_ + length);
  }
  if (offset != extent.offset + received_ || length != extent.length - received_)
    return error(errc::io_error,
                 fmt::format("the server sends other bytes than requested: {} instead of {}",
                             to_string(byte_range{offset, length, false}),
                             to_string(byte_range{extent.offset + received_, extent.length - received_, false})));
  if (received_ != 0) {
    // The memory has the size of the first response.
    if (extent.length == extent_->length) return {};
    return error(errc::io_error, "the server contradicts itself: one version of the object has two sizes");
  }
  extent_ = extent;
  return take_room(extent.length);
}

// 200: the whole object, whatever was requested.
result<> http_read::head_of_all(const http_head& head) {
  const auto size = head.content_length();
  received_ = 0;
  skip_ = 0;
  done_.object_size = size.value_or(byte_range::kAll);
  if (checks_only_) {
    extent_ = byte_extent{};
    return {};
  }
  if (!head.tells_end()) return error(errc::unsupported, "the server reports neither the object's size nor its end");
  if (whole() && !size) {
    gathers_ = true;
    gathered_ = 0;
    room_ = {};
    return {};
  }
  if (size) {
    PENSTOCK_ASSIGN(extent_, find_extent(wanted_, *size));
  } else if (wanted_.range.from_end) {
    return error(errc::unsupported, "the server ignores byte ranges and does not report the object's size");
  } else {
    extent_ = byte_extent{wanted_.range.offset, wanted_.range.length};
  }
  if (!whole()) {
    sends_more_ = done_.sent_all = true;
    skip_ = extent_->offset;
    if (skip_ > kMostHttpSkip)
      return error(errc::unsupported,
                   fmt::format("the server ignores byte ranges: it sends all of the object, {} was requested",
                               to_string(wanted_.range)));
  }
  return take_room(extent_->length);
}

result<> http_read::take_room(std::uint64_t size) {
  PENSTOCK_ASSIGN(room_, find_room(wanted_, size));
  return {};
}

// Appends bytes of an object whose size is not known. They are in the reader's memory, which a limit covers; only the
// copy while it grows is not.
result<> http_read::gather(std::span<const std::byte> bytes) {
  const std::uint64_t all = gathered_ + bytes.size();
  if (all > room_.size()) {
    const auto known = room_.first(static_cast<std::size_t>(gathered_));
    const std::vector<std::byte> before(known.begin(), known.end());
    std::uint64_t more = std::max(gathered_, kShort);
    auto taken = take_room(std::min(wanted_.max_bytes, all + more));
    while (!taken.ok() && more > 0) {  // a limit may have room for less
      more /= 4;
      taken = take_room(std::min(wanted_.max_bytes, all + more));
    }
    PENSTOCK_TRY(std::move(taken));
    if (!before.empty()) std::memcpy(room_.data(), before.data(), before.size());
  }
  if (!bytes.empty()) std::memcpy(room_.data() + gathered_, bytes.data(), bytes.size());
  gathered_ = all;
  return {};
}

result<http_exchange::appetite> http_read::body(std::span<const std::byte> bytes) {
  if (checks_only_) return bytes.size() > 1 ? appetite::enough : appetite::more;
  if (gathers_) {
    const std::uint64_t room = wanted_.destination.empty() ? byte_range::kAll : wanted_.destination.size();
    const std::uint64_t most = std::min(wanted_.max_bytes, room);
    if (bytes.size() > most - gathered_)
      return error(errc::corrupt_data, fmt::format("the object is longer than {}, which is the most that can be right",
                                                   counted(most, "byte")));
    PENSTOCK_TRY(gather(bytes));
    return appetite::more;
  }
  const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, bytes.size()));
  skip_ -= skipped;
  bytes = bytes.subspan(skipped);
  const std::uint64_t left = extent_->length - received_;
  if (bytes.size() > left && !sends_more_)
    return error(errc::io_error, "the server sends more bytes than it announced");
  const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size()));
  if (take != 0) std::memcpy(room_.data() + received_, bytes.data(), take);
  received_ += take;
  return sends_more_ && received_ == extent_->length ? appetite::enough : appetite::more;
}

result<http_exchange::ending> http_read::end() {
  if (checks_only_) return ending::whole;
  if (gathers_) {
    done_.object_size = gathered_;
    PENSTOCK_TRY(find_extent(wanted_, gathered_));
    done_.bytes = room_.first(static_cast<std::size_t>(gathered_));
    return ending::whole;
  }
  if (received_ != extent_->length) {
    if (!sends_more_ || done_.object_size != byte_range::kAll) return ending::again;
    if (wanted_.may_end_early && skip_ == 0) {
      extent_->length = received_;
      done_.object_size = extent_->offset + received_;
      done_.bytes = room_.first(static_cast<std::size_t>(received_));
      return ending::whole;
    }
    return error(errc::corrupt_data, fmt::format("the range exceeds the object: {}", to_string(wanted_.range)));
  }
  done_.bytes = room_.first(static_cast<std::size_t>(extent_->length));
  return ending::whole;
}

result<http_exchange::ending> http_read::failed(const http_head& head, std::string_view body, bool) {
  if (checks_only_ && !asks_by_get_ && (head.status == 403 || head.status == 405 || head.status == 501)) {
    asks_by_get_ = true;  // a URL that is signed for GET refuses it
    return ending::otherwise;
  }
  if (from_->learn && from_->learn(head, region_)) return ending::otherwise;
  if (head.status == 412 && received_ != 0 && (wanted_.expected == nullptr || !wanted_.expected->known())) {
    received_ = 0;  // any version is accepted: begin with the new one
    extent_.reset();
    done_.seen = version();
    return ending::again;
  }
  if (head.status != 416) {
    error why = error_of_status(head, body);
    if (why.code() == errc::permission_denied && !from_->unsigned_note.empty()) why.note(from_->unsigned_note);
    return why;
  }
  const version seen = version_of(head, wanted_.expected);
  if (seen.known() && !is_expected(wanted_, seen)) return version_has_changed();
  const auto said = parse_content_range(head.find("content-range"));
  if (checks_only_) {
    done_.seen = seen;
    done_.seen_is_last = !entity_tag_of(seen).empty();
    done_.object_size = 0;
    return ending::whole;
  }
  if (said && said->total) {
    PENSTOCK_ASSIGN(const byte_extent extent, find_extent(wanted_, *said->total));
    if (extent.length == 0) {
      done_.seen = seen;
      done_.seen_is_last = !entity_tag_of(seen).empty();
      done_.object_size = *said->total;
      return ending::whole;
    }
    return error(errc::io_error, fmt::format("the server refuses {} of an object of {} bytes",
                                             to_string(byte_range{extent.offset, extent.length, false}), *said->total));
  }
  return error(errc::corrupt_data, fmt::format("the range exceeds the object: {}", to_string(wanted_.range)));
}

}  // namespace

std::string redirect_targets::find(std::string_view key) {
  targets& known = known_.get();
  const std::lock_guard lock(known.mutex);
  const auto at = known.of_keys.find(key);
  return at == known.of_keys.end() ? std::string() : at->second;
}

void redirect_targets::set(std::string_view key, const std::string& url) {
  targets& known = known_.get();
  const std::lock_guard lock(known.mutex);
  if (url.empty()) {
    if (const auto at = known.of_keys.find(key); at != known.of_keys.end()) known.of_keys.erase(at);
    return;
  }
  if (known.of_keys.size() >= kMostTargets) known.of_keys.clear();
  known.of_keys.insert_or_assign(std::string(key), url);
}

std::unique_ptr<http_exchange> make_http_read(std::shared_ptr<const http_objects> from, const byte_read& wanted,
                                              completion_sink& sink) {
  return std::make_unique<http_read>(std::move(from), wanted, sink);
}

}  // namespace penstock::inline v0
