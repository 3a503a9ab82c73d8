// Appends rows to an array while this thread continues: encoding and storage happen in the background.
//
//   append_rows [PATH]

#include <penstock/penstock.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace ps = penstock;

ps::result<> run(const std::string& path) {
  ps::create_options what;
  what.shape = {0, 1000};
  PENSTOCK_ASSIGN(what.type, ps::dtype::from_name("float32"));
  what.chunks = ps::extents{64, 1000};
  PENSTOCK_ASSIGN(const ps::array log, ps::create_array(path, what));

  ps::appender_options options;
  options.queue_bytes = 16 << 20;  // `append` waits only if so many bytes are not stored yet
  PENSTOCK_ASSIGN(ps::appender rows, ps::appender::make(log, 0, options));
  std::vector<float> row(1000);
  for (int step = 0; step < 1000; ++step) {
    row.assign(row.size(), static_cast<float>(step));
    // `row` is copied: the next step may change it.
    PENSTOCK_TRY(
        rows.append(ps::tensor_view::contiguous(reinterpret_cast<std::byte*>(row.data()), log.type(), {1, 1000})));
  }
  // The errors of all that was not stored come from here.
  PENSTOCK_ASSIGN(const ps::array after, rows.close());
  std::printf("%s has the shape %s\n", path.c_str(), ps::to_string(after.shape()).c_str());
  return {};
}

int main(int argc, char** argv) {
  const std::filesystem::path scratch = std::filesystem::temp_directory_path() / "penstock_append_rows.zarr";
  if (argc < 2) std::filesystem::remove_all(scratch);
  const ps::result<> done = run(argc > 1 ? argv[1] : scratch.string());
  if (argc < 2) std::filesystem::remove_all(scratch);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done.ok() ? 0 : 1;
}
