#include "base/counted.h"

#include <cmath>

namespace penstock::inline v0 {

std::string bytes_text(double bytes) {
  if (bytes < 999.5) return counted(std::lround(bytes), "byte");
  const char* const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  int unit = -1;
  do {
    bytes /= 1000;
    ++unit;
  } while (bytes >= 999.5 && unit < 5);
  return fmt::format("{:.{}f} {}", bytes, bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace penstock::inline v0
