#pragma once

#include <fmt/format.h>
#include <penstock/result.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::inline v0 {

/// Collects the errors of many files. The message names the first five.
class complaints {
 public:
  void add(std::string_view name, std::string_view what) {
    ++count_;
    if (named_.size() < kNamed) named_.push_back(fmt::format("'{}': {}", name, what));
  }
  bool any() const noexcept { return count_ != 0; }
  /// `3 of 9 files cannot be read: 'a.npy': ...`
  /// \param all  The total number of files.
  error make(errc code, std::string_view what, std::size_t all, std::string_view kind = "files") const {
    std::string text = fmt::format("{} of {} {} {}: ", count_, all, kind, what);
    for (std::size_t i = 0; i < named_.size(); ++i) text += (i == 0 ? "" : "; ") + named_[i];
    if (count_ > named_.size()) text += fmt::format("; and {} more", count_ - named_.size());
    return {code, std::move(text)};
  }

 private:
  static constexpr std::size_t kNamed = 5;
  std::size_t count_ = 0;
  std::vector<std::string> named_;
};

}  // namespace penstock::inline v0
