#pragma once

#include <penstock/store.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::inline v0 {

/// Named objects that lie in several stores, for reading only: the files that an array of references rests on.
///
/// An object may be pinned to the version that it had when the store was made: what the references say of its bytes
/// holds for that version alone, so a read of any other fails as `conflict` instead of decoding what is there now, and
/// so does one of an object that is gone.
class reference_store final : public store {
 public:
  struct object {
    std::string name;  ///< its key here: what errors show, such as a path or a URI
    std::shared_ptr<const store> from;
    std::string key;                ///< in `from`
    version pinned;                 ///< not known: any version will do
    bool may_vanish = false;        ///< pinned, but not to be there: it is `not_found` then, not a conflict
    bool completes_inline = false;  ///< set by `make`
  };

  /// \error invalid_argument  Two objects of one name.
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
