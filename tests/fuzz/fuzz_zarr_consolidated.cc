// Any bytes as a group's zarr.json and as .zmetadata: refused with an error, or every listed node is parsed or refused.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "format/zarr/zarr_consolidated.h"

extern "C" int run_zarr_consolidated(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  auto document = json::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  const auto check = [](const error& why) {
    if (why.code() != errc::corrupt_data && why.code() != errc::unsupported) __builtin_trap();
  };
  const auto shared = std::make_shared<const json>(std::move(*document));
  for (const bool v2 : {false, true}) {
    const auto made = v2 ? zarr_consolidated::from_v2(shared) : zarr_consolidated::from_v3(shared);
    if (!made.ok()) {
      check(made.error());
      continue;
    }
    if (*made == nullptr) continue;
    for (const std::string& path : (*made)->paths()) {
      if (!(*made)->contains(path)) __builtin_trap();
      if (const auto node = (*made)->parse(path); !node.ok()) check(node.error());
      for (const std::string& child : (*made)->children(path)) {
        if (child.empty() || child.find('/') != std::string::npos) __builtin_trap();
      }
    }
  }
  return 0;
}
