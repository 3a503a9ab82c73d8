#include "support/nvtx_recorder/nvtx_recorder.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Declared again, instead of using the library's declarations: otherwise, a mistake there would be made twice in the
// same way. Source: NVTX 3, "nvToolsExt.h" and "nvtxDetail/nvtxTypes.h".
namespace {

struct domain {
  std::string name;
};
struct text {
  const domain* of;
  std::string value;
};
struct attributes {
  std::uint16_t version, size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type, reserved;
  double payload;
  std::int32_t message_type;
  const text* message;
};
struct callbacks {
  std::size_t bytes;
  int (*functions_of)(int module, void (****out)(), unsigned* size);
};

constexpr int kCore2 = 5, kRegistered = 3;

struct recorder {
  std::mutex mutex;
  std::vector<std::unique_ptr<domain>> domains;
  std::vector<std::unique_ptr<text>> texts;
  std::map<std::string, std::uint64_t> opened;
  std::set<std::uint64_t> started;
  std::uint64_t next = 1, mistakes = 0;
};
recorder& self() {
  static auto* const made = new recorder;
  return *made;
}
std::atomic<std::int64_t> open_ranges{0};
thread_local std::int64_t depth = 0;

void note(const void* domain_ref, const void* event) {
  const auto* const of = static_cast<const domain*>(domain_ref);
  const auto* const what = static_cast<const attributes*>(event);
  const std::lock_guard lock(self().mutex);
  if (of == nullptr || what->version != 3 || what->size != sizeof(attributes) || what->message_type != kRegistered ||
      what->message == nullptr || what->message->of != of) {
    ++self().mistakes;
    return;
  }
  ++self().opened[of->name + "::" + what->message->value];
}

void* create(const char* name) {
  const std::lock_guard lock(self().mutex);
  self().domains.push_back(std::make_unique<domain>(domain{name}));
  return self().domains.back().get();
}
void* name_string(void* of, const char* value) {
  const std::lock_guard lock(self().mutex);
  self().texts.push_back(std::make_unique<text>(text{static_cast<const domain*>(of), value}));
  return self().texts.back().get();
}
int push(void* of, const void* what) {
  note(of, what);
  open_ranges.fetch_add(1);
  return static_cast<int>(depth++);
}
int pop(void*) {
  open_ranges.fetch_sub(1);
  if (--depth < 0) {
    const std::lock_guard lock(self().mutex);
    ++self().mistakes;
  }
  return static_cast<int>(depth);
}
std::uint64_t start(void* of, const void* what) {
  note(of, what);
  open_ranges.fetch_add(1);
  const std::lock_guard lock(self().mutex);
  self().started.insert(self().next);
  return self().next++;
}
void end(void*, std::uint64_t range) {
  open_ranges.fetch_sub(1);
  const std::lock_guard lock(self().mutex);
  if (self().started.erase(range) == 0) ++self().mistakes;
}

template <class Function>
void install(void (***table)(), unsigned size, unsigned which, Function* function) {
  if (which < size && table[which] != nullptr) *table[which] = reinterpret_cast<void (*)()>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void* (*table_of)(std::uint32_t)) {
  const auto* const found = static_cast<const callbacks*>(table_of(1));
  if (found == nullptr || found->bytes < sizeof(callbacks) || table_of(99) != nullptr) return 0;
  void (***table)() = nullptr;
  unsigned size = 0;
  // As in real tools: every module has a table.
  for (int module = 1; module <= 6; ++module)
    if (found->functions_of(module, &table, &size) == 0 || table[0] != nullptr || table[size] != nullptr) return 0;
  if (found->functions_of(7, &table, &size) != 0 || found->functions_of(kCore2, &table, &size) == 0) return 0;
  install(table, size, 2, start);
  install(table, size, 3, end);
  install(table, size, 4, push);
  install(table, size, 5, pop);
  install(table, size, 10, name_string);
  install(table, size, 12, create);
  return 1;
}

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

PENSTOCK_EXPORT std::uint64_t penstock_nvtx_opened(const char* domain, const char* name) {
  const std::lock_guard lock(self().mutex);
  const auto found = self().opened.find(std::string(domain) + "::" + name);
  return found == self().opened.end() ? 0 : found->second;
}
PENSTOCK_EXPORT std::int64_t penstock_nvtx_open() { return open_ranges.load(); }
PENSTOCK_EXPORT std::uint64_t penstock_nvtx_mistakes() {
  const std::lock_guard lock(self().mutex);
  return self().mistakes;
}
