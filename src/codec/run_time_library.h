#pragma once

// Optional libraries of codecs. They are loaded at first use: a program without such data should not load them at its
// start, and a package that does not carry them uses those of the system. Builds may link them instead.

#include <dlfcn.h>
#include <fmt/format.h>
#include <penstock/result.h>

#include <mutex>
#include <string>
#include <utility>

namespace penstock::inline v0 {

/// Finds functions in a library, which stays loaded.
class run_time_library {
 public:
  explicit run_time_library(std::string name) : name_(std::move(name)) {}

  /// \param linked  The function if the build links the library, which is then not loaded; null otherwise.
  template <class Function>
  void take(Function& into, const char* name, Function linked) {
    if (linked != nullptr) {
      into = linked;
      return;
    }
    if (!opened_) library_ = ::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
    opened_ = true;
    if (library_ == nullptr) {
      trouble_ = fmt::format("{} is not on this machine", name_);
      return;
    }
    into = reinterpret_cast<Function>(::dlsym(library_, name));
    if (into == nullptr) trouble_ = fmt::format("{} has no {}", name_, name);
  }

  /// Empty if all functions were found.
  const std::string& trouble() const noexcept { return trouble_; }

 private:
  void* library_ = nullptr;
  bool opened_ = false;
  std::string name_, trouble_;
};

/// The functions of one library, found once per process by `take(functions, library)` in the file of that name.
/// \error unsupported  This machine does not have the library, or has another version.
template <class Functions, class Take>
result<const Functions*> once_per_process(std::string name, Take take) {
  static std::once_flag once;
  static Functions found;
  static std::string trouble;
  std::call_once(once, [&] {
    run_time_library from(std::move(name));
    take(found, from);
    trouble = from.trouble();
  });
  if (trouble.empty()) return &found;
  return error(errc::unsupported, trouble);
}

/// Takes the function `prefix``name` into the member `name` of `found`: that of the library that the build links, or
/// that of the loaded one.
#define PENSTOCK_TAKE_LINKED(from, prefix, name) from.take(found.name, #prefix #name, &::prefix##name)
#define PENSTOCK_TAKE_LOADED(from, prefix, name) from.take(found.name, #prefix #name, decltype(found.name)())

}  // namespace penstock::inline v0
