#pragma once

#include <penstock/store.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::inline v0 {

class held_bytes;

/// Named objects in several stores, for reading only: the files of an array of references.
///
/// An object may be pinned to the version that it had when the store was created: references to its bytes are valid for
/// that version only. A read of any other version, or of an object that no longer exists, then fails as `conflict`.
class reference_store final : public store {
 public:
  struct object {
    std::string name;  ///< its key here, shown in errors, such as a path or a URI
    std::shared_ptr<const store> from;
    std::string key;                ///< in `from`
    version pinned;                 ///< not known: any version is accepted
    bool may_vanish = false;        ///< pinned, but may be absent: then it is `not_found`, not a conflict
    bool completes_inline = false;  ///< set by `make`
    /// Bytes of the pinned version that are known; null: none.
    std::shared_ptr<const held_bytes> held = nullptr;
  };

  /// \error invalid_argument  Two objects have one name.
  static result<std::shared_ptr<const reference_store>> make(std::vector<object> objects, std::string uri);

  store_traits traits() const override { return traits_; }
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  std::string uri() const override { return uri_; }

 private:
  reference_store() = default;
  const object* find(std::string_view name) const noexcept;

  std::vector<object> objects_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // views of objects_
  store_traits traits_;
  std::string uri_;
};

}  // namespace penstock::inline v0
