#include "format/hdf5/hdf5_object.h"

namespace penstock::inline v0 {

result<std::uint64_t> read_hdf5_page_bytes(hdf5_file& file) {
  constexpr std::uint64_t kPaged = 1;
  if (file.undefined(file.extension())) return std::uint64_t{0};
  PENSTOCK_ASSIGN(const auto extension, read_hdf5_object(file, file.extension()));
  const hdf5_message* const found = find_message(extension, hdf5_message::file_space);
  if (found == nullptr) return std::uint64_t{0};
  hdf5_cursor cursor(found->body);
  const bool is_new = cursor.number(1) == 1;  // before 1.10.1, files had another message, and no pages
  const std::uint64_t strategy = cursor.number(1);
  cursor.skip(1 + file.length_bytes());  // whether free space is tracked, and from which size
  const std::uint64_t bytes = cursor.number(file.length_bytes());
  return is_new && strategy == kPaged && cursor.ok() ? bytes : std::uint64_t{0};
}

}  // namespace penstock::inline v0
