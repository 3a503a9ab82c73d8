// Started on several ranks by the launcher: each loads its tiles, and all see the same failures.

#include <penstock/create.h>
#include <penstock/mpi.h>
#include <penstock/penstock.h>
#include <penstock/shards.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace {

namespace ps = penstock;

constexpr std::uint64_t kRows = 23, kColumns = 5;
int rank = 0, ranks = 1;

void expect(bool what, const char* text) {
  if (what) return;
  std::fprintf(stderr, "rank %d of %d: expected that %s\n", rank, ranks, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

template <class T>
T expect_value(ps::result<T> made, const char* text) {
  if (!made.ok()) std::fprintf(stderr, "%s\n", made.error().to_string().c_str());
  expect(made.ok(), text);
  return std::move(*made);
}

void write_array(const std::string& path) {
  ps::create_options options;
  options.shape = {kRows, kColumns};
  options.dtype_json = "\"int32\"";
  options.chunks = ps::extents{1, kColumns};
  const ps::array made =
      expect_value(ps::create_array(ps::find_place(path)->store, options), "an array can be created");
  std::vector<std::int32_t> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0);
  const auto done =
      made.write(ps::basic_selection{},
                 ps::tensor_view::contiguous(reinterpret_cast<std::byte*>(values.data()), made.type(), made.shape()));
  expect(done.ok(), "an array can be written");
}

void loads_its_tile(const std::string& path) {
  const ps::array a = expect_value(ps::mpi::open(path, MPI_COMM_WORLD), "every rank opens the array");
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const ps::mpi::tile mine = expect_value(ps::mpi::load(a, MPI_COMM_WORLD, axis), "every rank loads its tile");
    const std::uint64_t columns = mine.shape[1];
    const auto* const values = reinterpret_cast<const std::int32_t*>(mine.data.data());
    for (std::uint64_t y = 0; y < mine.shape[0]; ++y) {
      for (std::uint64_t x = 0; x < columns; ++x) {
        const std::uint64_t row = axis == 0 ? mine.begin + y : y, column = axis == 1 ? mine.begin + x : x;
        expect(values[y * columns + x] == static_cast<std::int32_t>(row * kColumns + column),
               "a tile holds its elements");
      }
    }
    unsigned long long here = mine.shape[axis], total = 0;
    MPI_Allreduce(&here, &total, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    expect(total == a.shape()[axis], "the tiles are the whole array");
  }
}

void asks_storage_on_rank_0_alone(const std::string& path) {
  // The other ranks get a path that does not exist.
  const ps::array a = expect_value(ps::mpi::open(rank == 0 ? path : path + ".nowhere", MPI_COMM_WORLD),
                                   "the other ranks receive the findings of rank 0");
  expect(a.shape() == ps::extents{kRows, kColumns}, "they receive the shape");
}

void fails_together(const std::string& path) {
  const auto nothing = ps::mpi::open(path + ".nowhere", MPI_COMM_WORLD);
  expect(!nothing.ok() && nothing.error().code() == ps::errc::not_found, "no rank opens what is not there");
  const ps::array a = expect_value(ps::mpi::open(path, MPI_COMM_WORLD), "every rank opens the array");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::ofstream(path + "/c/22/0", std::ios::binary) << "damaged";
  MPI_Barrier(MPI_COMM_WORLD);
  const auto damaged = ps::mpi::load(a, MPI_COMM_WORLD);
  expect(!damaged.ok() && damaged.error().code() == ps::errc::corrupt_data, "damage is every rank's error");
  const std::string text = damaged.error().to_string();
  const ps::axis_tiles cut = *ps::tile_axis(kRows, static_cast<std::uint64_t>(ranks));
  const bool had_it = static_cast<std::uint64_t>(rank) == cut.count - 1;
  expect(text.find("c/22/0") != std::string::npos, "the error names the key");
  expect(had_it || text.find("rank " + std::to_string(cut.count - 1) + " of") != std::string::npos,
         "the error names the rank that met it");
  expect(!ps::mpi::load(a, MPI_COMM_WORLD, 2).ok(), "there is no third axis");
}

// One row of int32 in each file, written by hand, like the files of a simulation.
void write_shards(const std::string& folder) {
  for (std::uint64_t row = 0; row < kRows; ++row) {
    std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1, " + std::to_string(kColumns) + "), }";
    header.resize(117, ' ');
    std::ofstream file(folder + "/s_" + std::to_string(row) + ".npy", std::ios::binary);
    file << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size() + 1) << '\0' << header << '\n';
    for (std::uint64_t column = 0; column < kColumns; ++column) {
      const auto value = static_cast<std::int32_t>(row * kColumns + column);
      file.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
}

void loads_shards(const std::string& folder) {
  loads_its_tile(folder + "/s_*.npy");
  asks_storage_on_rank_0_alone(folder + "/s_*.npy");
  if (rank == 0) {
    const ps::array a = expect_value(ps::open_array(folder + "/s_*.npy"), "the shards are opened");
    const auto saved = expect_value(ps::save_manifest(a, ".", ps::manifest_form::binary), "they have a manifest");
    std::ofstream(folder + "/all.shards", std::ios::binary)
        .write(reinterpret_cast<const char*>(saved.data()), static_cast<std::streamsize>(saved.size()));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  loads_its_tile(folder + "/all.shards");
}

void is_told_of_memory_that_a_rank_has_not(const std::string& path) {
  if (rank == 0) {
    ps::create_options options;
    options.shape = {1, std::uint64_t{1} << 58};
    options.dtype_json = "\"int8\"";
    options.chunks = ps::extents{1, 1 << 20};
    expect_value(ps::create_array(ps::find_place(path)->store, options), "a huge array can be created");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const ps::array a = expect_value(ps::mpi::open(path, MPI_COMM_WORLD), "every rank opens the huge array");
  const auto huge = ps::mpi::load(a, MPI_COMM_WORLD);  // rank 0 holds its only row
  expect(!huge.ok() && huge.error().code() == ps::errc::resource_exhausted, "no memory is every rank's error");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::string path;
  if (rank == 0) {
    std::string folder = (std::filesystem::temp_directory_path() / "penstock-mpi-XXXXXX").string();
    expect(::mkdtemp(folder.data()) != nullptr, "there is room for a folder");
    path = folder + "/a.zarr";
    write_array(path);
  }
  ps::mpi::detail::broadcast(path, 0, MPI_COMM_WORLD);
  loads_its_tile(path);
  asks_storage_on_rank_0_alone(path);
  fails_together(path);
  const std::string folder = path.substr(0, path.rfind('/'));
  if (rank == 0) write_shards(folder);
  MPI_Barrier(MPI_COMM_WORLD);
  loads_shards(folder);
  is_told_of_memory_that_a_rank_has_not(folder + "/huge.zarr");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  MPI_Finalize();
  return 0;
}
