// This library's side of NVTX 3's injection: the function of its headers in other programs, with separate declarations.
//
// Source: NVTX 3, its reference and its loading sequence (version 2): the library that NVTX_INJECTION64_PATH names has
// InitializeInjectionNvtx2, which receives access to this library's tables of functions and stores its own functions in
// them.

#include "base/nvtx.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>

namespace penstock::inline v0 {
namespace {

using any_function = void (*)();
using domain_ref = void*;  // objects of a tool belong to it
using string_ref = void*;

// Modules are numbered from 1 on, in this order; only the domain functions of the fifth are called. The others exist
// because tools fill all of them.
constexpr unsigned kModuleSizes[] = {16, 9, 15, 7, 16, 7};
constexpr unsigned kModules = 6, kMostFunctions = 16, kDomainModule = 5;
constexpr unsigned kRangeStart = 2, kRangeEnd = 3, kRangePush = 4, kRangePop = 5, kRegisterString = 10,
                   kDomainCreate = 12, kInitialize = 15;
constexpr std::uint32_t kCallbacksTable = 1, kVersionTable = 3;
constexpr std::uint16_t kVersion = 3;
constexpr std::int32_t kRegisteredMessage = 3;

struct event_attributes {
  std::uint16_t version = kVersion, size = 48;
  std::uint32_t category = 0;
  std::int32_t color_type = 0;
  std::uint32_t color = 0;
  std::int32_t payload_type = 0, reserved = 0;
  std::uint64_t payload = 0;
  std::int32_t message_type = kRegisteredMessage;
  string_ref message = nullptr;
};
static_assert(sizeof(event_attributes) == 48);

struct callbacks_table {
  std::size_t bytes = sizeof(callbacks_table);
  int (*functions_of)(int module, any_function*** out, unsigned* size) = nullptr;
};
struct version_table {
  std::size_t bytes = sizeof(version_table);
  std::uint32_t version = kVersion, reserved = 0;
  void (*set_tool_version)(std::uint32_t) = [](std::uint32_t) {};
};

constexpr const char* kNames[kNvtxNames] = {"read::disk", "read::transfer", "read::decode", "read::scatter"};

// Lives as long as the process: a tool may access its tables until the end.
class nvtx_tool {
 public:
  static nvtx_tool& get() {
    static nvtx_tool* const made = new nvtx_tool;
    return *made;
  }

  bool listens = false;

  event_attributes attributes_of(nvtx_name name) const noexcept {
    event_attributes out;
    out.message = strings_[static_cast<unsigned>(name)];
    return out;
  }
  template <class Function>
  Function function(unsigned which) const noexcept {
    return reinterpret_cast<Function>(functions_[kDomainModule - 1][which]);
  }
  domain_ref domain() const noexcept { return domain_; }

 private:
  nvtx_tool() {
    for (unsigned i = 0; i < kModules; ++i)
      for (unsigned k = 1; k < kModuleSizes[i]; ++k) places_[i][k] = &functions_[i][k];
    const char* const named = std::getenv("NVTX_INJECTION64_PATH");
    if (named == nullptr || *named == '\0') return;
    void* const library = dlopen(named, RTLD_LAZY);
    if (library == nullptr) return;
    using start_function = int (*)(const void* (*)(std::uint32_t));
    const auto start = reinterpret_cast<start_function>(dlsym(library, "InitializeInjectionNvtx2"));
    // the tool does not call `get`: it receives the one that is being created
    made_ = this;
    if (start == nullptr || start(&nvtx_tool::table) == 0) return;
    if (const auto initialize = function<void (*)(const void*)>(kInitialize)) initialize(nullptr);
    const auto create = function<domain_ref (*)(const char*)>(kDomainCreate);
    const auto name = function<string_ref (*)(domain_ref, const char*)>(kRegisterString);
    if (create == nullptr || name == nullptr) return;
    if (functions_[kDomainModule - 1][kRangePush] == nullptr || functions_[kDomainModule - 1][kRangePop] == nullptr)
      return;
    domain_ = create("penstock");
    for (unsigned i = 0; i < kNvtxNames; ++i) strings_[i] = name(domain_, kNames[i]);
    listens = true;
  }

  static const void* table(std::uint32_t which) {
    static const callbacks_table callbacks{sizeof(callbacks_table), &nvtx_tool::functions_of};
    static const version_table version;
    if (which == kCallbacksTable) return &callbacks;
    return which == kVersionTable ? static_cast<const void*>(&version) : nullptr;
  }
  static int functions_of(int module, any_function*** out, unsigned* size) {
    if (module < 1 || module > static_cast<int>(kModules)) return 0;
    if (out != nullptr) *out = made_->places_[module - 1];
    if (size != nullptr) *size = kModuleSizes[module - 1];
    return 1;
  }

  static inline nvtx_tool* made_ = nullptr;
  any_function functions_[kModules][kMostFunctions] = {};
  any_function* places_[kModules][kMostFunctions + 1] = {};  // for each; null at 0 and after the last
  domain_ref domain_ = nullptr;
  string_ref strings_[kNvtxNames] = {};
};

}  // namespace

bool nvtx_listens() noexcept {
  static const bool listens = nvtx_tool::get().listens;
  return listens;
}

void nvtx_scope::push(nvtx_name name) noexcept {
  const nvtx_tool& tool = nvtx_tool::get();
  const event_attributes what = tool.attributes_of(name);
  tool.function<int (*)(domain_ref, const void*)>(kRangePush)(tool.domain(), &what);
}

void nvtx_scope::pop() noexcept {
  const nvtx_tool& tool = nvtx_tool::get();
  tool.function<int (*)(domain_ref)>(kRangePop)(tool.domain());
}

nvtx_id nvtx_start(nvtx_name name) noexcept {
  if (!nvtx_listens()) return 0;
  const nvtx_tool& tool = nvtx_tool::get();
  const auto start = tool.function<nvtx_id (*)(domain_ref, const void*)>(kRangeStart);
  if (start == nullptr) return 0;
  const event_attributes what = tool.attributes_of(name);
  return start(tool.domain(), &what);
}

void nvtx_end(nvtx_id range) noexcept {
  if (range == 0) return;
  const nvtx_tool& tool = nvtx_tool::get();
  if (const auto end = tool.function<void (*)(domain_ref, nvtx_id)>(kRangeEnd)) end(tool.domain(), range);
}

}  // namespace penstock::inline v0
