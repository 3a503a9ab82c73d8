// Opens files of a format that the library does not know as one array: a function reads their rows.

#include <penstock/penstock.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ps = penstock;

constexpr std::uint64_t kRows = 1000, kColumns = 64;
constexpr std::streamoff kHeader = 16;

// A file is 16 bytes of a header, then rows of 64 numbers.
ps::array_source source_of(const std::string& path, const ps::dtype& int16) {
  ps::array_source out;
  out.name = path;
  out.type = int16;
  out.shape = {kRows, kColumns};
  out.chunks = {kRows, kColumns};  // a call reads many rows at once
  out.read = [path](const ps::box& which, std::span<std::byte> to) -> ps::result<> {
    std::ifstream file(path, std::ios::binary);
    std::byte* at = to.data();
    for (std::uint64_t row = which.origin[0]; row < which.origin[0] + which.size[0]; ++row) {
      const auto bytes = static_cast<std::streamsize>(2 * which.size[1]);
      file.seekg(kHeader + static_cast<std::streamoff>(2 * (row * kColumns + which.origin[1])));
      if (!file.read(reinterpret_cast<char*>(at), bytes)) return ps::error(ps::errc::io_error, "the file ends early");
      at += bytes;
    }
    return {};
  };
  return out;
}

ps::result<std::vector<std::int16_t>> read_rows(const std::vector<std::string>& paths) {
  PENSTOCK_ASSIGN(const ps::dtype int16, ps::dtype::from_name("int16"));
  std::vector<ps::array_source> sources;
  for (const std::string& path : paths) sources.push_back(source_of(path, int16));
  PENSTOCK_ASSIGN(const ps::array joined, ps::open_sources(std::move(sources), 0));
  ps::basic_selection which;  // [999:1001]
  which.items = {ps::slice{999, 1001, {}}};
  std::vector<std::int16_t> values(2 * kColumns);
  PENSTOCK_TRY(joined.read(which, ps::tensor_view::contiguous(values.data(), int16, {2, kColumns})));
  return values;
}

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "penstock_own_files";
  std::filesystem::create_directories(folder);
  std::vector<std::string> paths;
  for (std::int16_t number = 0; number < 2; ++number) {
    paths.push_back((folder / ("run_" + std::to_string(number) + ".own")).string());
    std::ofstream file(paths.back(), std::ios::binary);
    const std::vector<char> header(static_cast<std::size_t>(kHeader));
    file.write(header.data(), kHeader);
    const std::vector<std::int16_t> values(kRows * kColumns, number);
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(2 * values.size()));
  }
  const auto values = read_rows(paths);
  std::filesystem::remove_all(folder);
  if (!values.ok()) {
    std::fprintf(stderr, "%s\n", values.error().to_string().c_str());
    return 1;
  }
  std::printf("%zu values around the seam\n", values->size());
  return values->front() == 0 && values->back() == 1 ? 0 : 1;
}
