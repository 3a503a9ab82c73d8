#include "csv.h"

#include <unistd.h>

#include <utility>

#include "base/printable.h"
#include "values.h"

namespace penstock::inline v0::cli {

std::string csv_rows(const dtype& type, const extents& shape, const std::byte* data) {
  const std::uint64_t rows = shape.empty() ? 1 : shape[0], columns = shape.size() < 2 ? 1 : shape[1];
  std::string out;
  if (columns == 0) return out;
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t column = 0; column < columns; ++column) {
      if (column != 0) out += ',';
      const std::string field = csv_text(type, data);
      out += columns == 1 && field.empty() ? "\"\"" : field;  // readers skip empty lines
      data += type.item_bytes();
    }
    out += '\n';
  }
  return out;
}

std::string csv_for(int descriptor, std::string lines) {
  return isatty(descriptor) == 1 ? printable_lines(lines) : std::move(lines);
}

}  // namespace penstock::inline v0::cli
