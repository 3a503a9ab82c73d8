// Reads one small chunk repeatedly; callgrind counts its instructions.
// warm_read READS [memory|file]. No compressor, so that the count is Penstock's own work and one memcpy.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include <penstock/penstock.h>
#include "store/store_fixture.h"
#include "support/model_array.h"

int main(int argc, char** argv) {
  using namespace penstock;
  if (argc != 3) return 2;
  const long reads = std::atol(argv[1]);
  const test::temporary_folder folder;
  const auto store =
      std::string_view(argv[2]) == "file" ? open_file_store(folder.path().string()) : make_memory_store();
  test::model_options options;
  options.shape = {64, 256};
  options.chunks = {1, 256};
  options.shards = extents{64, 256};
  test::write_model(*store, "", options);
  const auto opened = open_array(store);
  if (!opened.ok()) return 1;
  std::vector<std::int32_t> values(256);
  const selection which = basic_selection{{std::int64_t{7}}};
  const tensor_view out = tensor_view::contiguous(values.data(), opened->type(), {256});
  for (long i = 0; i < reads; ++i)
    if (!opened->read(which, out).ok()) return 1;
  return 0;
}
