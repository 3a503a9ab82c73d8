// The kernels that move decoded values, and the kernel after another library's decoder: on the emulator they write the
// same as their host forms.

#include <libdeflate.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/decode/host_run.h"
#include "cuda/move/move.h"
#include "emulator/emulator.h"
#include "emulator/kernels.h"

namespace penstock::inline v0 {
namespace {

using emulator::content;
using emulator::give_memory;
using emulator::use;

template <class T>
std::uint64_t address_of(const std::vector<T>& items) {
  return reinterpret_cast<std::uintptr_t>(items.data());
}

template <class Parameters>
void run(const char* name, std::uint32_t grid, const Parameters& parameters) {
  const emulator::kernel* const kernel = emulator::find_kernel(name);
  ASSERT_NE(kernel, nullptr);
  ASSERT_EQ(kernel->argument_bytes, sizeof parameters);
  give_memory(&parameters, sizeof parameters, "the argument", content::written, use::read);
  emulator::set_turn(emulator::turn::random);
  emulator::launch(grid, cuda::kMoveThreads, 0, [&] { kernel->lane(&parameters); });
}

// Boxes of any rank, unit and byte order, some with listed positions and some converted, out of one block of bytes into
// another where none overlap.
struct moves {
  std::vector<std::uint8_t> from, to, expected;
  std::vector<cuda::move_item> items;
  std::vector<cuda::move_axis> axes;
  std::vector<cuda::move_run> runs;
  std::vector<cuda::move_tile> tiles;
  std::vector<std::uint32_t> statuses{0, 6};
  std::vector<cuda::failure_note> notes;
  std::vector<cuda::failure_report> reports;

  explicit moves(std::uint32_t seed) : from(1 << 16), to(1 << 18, 0xee), notes(1), reports(1) {
    std::mt19937 random(seed);
    for (auto& byte : from) byte = static_cast<std::uint8_t>(random());
    notes[0].cell = 42;
    std::uint64_t used = 0;
    while (used < to.size() / 2) used = add(used, random);
    expected = to;
  }

  std::uint64_t add(std::uint64_t at, std::mt19937& random) {
    cuda::move_item item;
    item.unit_bytes = 1U << random() % 5;
    std::uint32_t from_bytes = item.unit_bytes;
    item.swap = random() % 2;
    if (random() % 4 == 0) {
      item.convert_from = static_cast<number_kind>(1 + random() % 13);
      item.convert_to = number_kind::float64;
      item.unit_bytes = 8;
      from_bytes = part_bytes(item.convert_from);
    }
    item.first_axis = static_cast<std::uint32_t>(axes.size());
    item.first_run = static_cast<std::uint32_t>(runs.size());
    item.axes = random() % 4;
    item.units = 1;
    std::uint64_t to_step = item.unit_bytes;
    std::vector<cuda::move_axis> made(item.axes);
    for (std::uint32_t d = item.axes; d-- > 0;) {
      made[d].count = 1 + random() % 9;
      made[d].from_step = static_cast<std::int64_t>(from_bytes * (1 + random() % 5));
      made[d].to_step = static_cast<std::int64_t>(to_step);
      to_step *= made[d].count;
      item.units *= made[d].count;
      if (random() % 3 == 0) {  // positions in two runs
        made[d].first_run = static_cast<std::uint32_t>(runs.size()) - item.first_run;
        made[d].runs = made[d].count > 1 ? 2 : 1;
        const std::uint64_t half = made[d].count / 2;
        runs.push_back({0, 8 * made[d].from_step, 0});
        if (made[d].runs == 2) runs.push_back({half, 0, static_cast<std::int64_t>(half) * made[d].to_step});
      }
    }
    axes.insert(axes.end(), made.begin(), made.end());
    item.from = address_of(from) + 16 * (random() % 64) + (random() % 4 == 0 ? 3 : 0);
    item.to = address_of(to) + at;
    item.status = random() % 8 == 0 ? 1 : random() % 2 == 0 ? 0 : cuda::kNoStatus;
    item.in_place = random() % 8 == 0 && item.status != cuda::kNoStatus ? 1 : 0;
    item.note = address_of(notes);
    item.report = address_of(reports);
    const std::uint64_t each = 1 + random() % item.units;
    for (std::uint64_t first = 0; first < item.units; first += each) {
      cuda::move_tile tile;
      tile.item = static_cast<std::uint32_t>(items.size());
      tile.first = first;
      tile.count = std::min(each, item.units - first);
      tiles.push_back(tile);
    }
    items.push_back(item);
    return (at + to_step + 31) / 16 * 16;
  }
};

TEST(Emulated, MoveEqualsItsHostForm) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {  // thousands of boxes
    moves with(seed);
    const cuda::move_parameters parameters{with.items.data(), with.axes.data(), with.runs.data(), with.tiles.data(),
                                           with.statuses.data()};
    const auto grid = static_cast<std::uint32_t>(with.tiles.size());
    for (unsigned block = 0; block < grid; ++block)
      for (unsigned thread = 0; thread < cuda::kMoveThreads; ++thread)
        cuda::move_block(parameters, block, thread, cuda::kMoveThreads);
    std::swap(with.to, with.expected);
    const auto shift = address_of(with.to) - address_of(with.expected);  // the swap exchanged the addresses, too
    for (auto& item : with.items) item.to += shift;
    const cuda::failure_report expected = with.reports[0];
    with.reports[0] = {};

    emulator::forget_memory();
    const auto give = [](const auto& items, const char* name, use may) {
      give_memory(items.data(), items.size() * sizeof(items[0]), name, content::written, may);
    };
    give(with.from, "the source", use::read);
    give(with.to, "the target", use::write);
    give(with.items, "the items", use::read);
    give(with.axes, "the axes", use::read);
    give(with.runs, "the runs", use::read);
    give(with.tiles, "the tiles", use::read);
    give(with.statuses, "the statuses", use::read);
    give(with.notes, "the notes", use::read);
    give(with.reports, "the reports", use::write);
    run("penstock_move", grid, parameters);
    ASSERT_EQ(with.to, with.expected) << "seed " << seed;
    EXPECT_EQ(with.reports[0].failed, expected.failed) << "seed " << seed;
    EXPECT_EQ(with.reports[0].note.cell, expected.note.cell);
  }
}

TEST(Emulated, GatherEqualsItsHostForm) {
  for (const std::uint32_t unit : {1U, 2U, 4U, 8U, 16U}) {
    std::vector<std::uint8_t> from(20'000), to(8 * 7 * 5 * unit, 0xee);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 31 >> 3);
    cuda::gather_parameters parameters;
    parameters.item.unit_bytes = unit;
    parameters.item.from = address_of(from) + 1;
    parameters.item.to = address_of(to);
    parameters.item.units = 8 * 7 * 5;
    parameters.item.axes = 3;
    const std::int64_t step = unit;
    parameters.axes[0] = {8, 100 * step, 35 * step, 0, 0};
    parameters.axes[1] = {7, 6 * step, 5 * step, 0, 0};
    parameters.axes[2] = {5, step, step, 0, 0};
    parameters.end = parameters.item.units;
    parameters.tile_units = 33;
    const std::uint32_t grid = 9;
    auto expected = to;
    parameters.item.to = address_of(expected);
    for (unsigned block = 0; block < grid; ++block)
      for (unsigned thread = 0; thread < cuda::kMoveThreads; ++thread)
        cuda::gather_block(parameters, block, thread, cuda::kMoveThreads);
    parameters.item.to = address_of(to);
    emulator::forget_memory();
    give_memory(from.data(), from.size(), "the source", content::written, use::read);
    give_memory(to.data(), to.size(), "the target", content::unwritten, use::write);
    run("penstock_gather", grid, parameters);
    EXPECT_EQ(to, expected) << unit;
  }
}

TEST(Emulated, LibraryCheckVerifiesSumsAndConvertsStatuses) {
  using namespace device;
  std::vector<std::uint8_t> content_bytes(5000);
  for (std::size_t i = 0; i < content_bytes.size(); ++i) content_bytes[i] = static_cast<std::uint8_t>(i * i >> 5);
  // The check reads the last bytes of the stream, and the decoded ones.
  const auto size = static_cast<std::uint32_t>(content_bytes.size());
  const std::uint32_t adler = libdeflate_adler32(1, content_bytes.data(), size);
  const std::uint32_t crc = libdeflate_crc32(0, content_bytes.data(), size);
  std::vector<std::uint8_t> zlib_stream(20, 0xcd), gzip_stream(20, 0xcd), wrong(20, 0xcd);
  for (unsigned i = 0; i < 4; ++i) {
    zlib_stream[16 + i] = static_cast<std::uint8_t>(adler >> (24 - 8 * i));
    gzip_stream[12 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  }
  struct row {
    const std::vector<std::uint8_t>* stream;
    content_check check;
    std::int32_t outcome;
    std::uint64_t made;
    chunk_status expected;
  };
  const row rows[] = {
      {&zlib_stream, content_check::adler32, 0, size, chunk_status::ok},
      {&gzip_stream, content_check::crc32, 0, size, chunk_status::ok},
      {&wrong, content_check::adler32, 0, size, chunk_status::wrong_checksum},
      {&wrong, content_check::crc32, 0, size, chunk_status::wrong_checksum},
      {&wrong, content_check::none, 0, size, chunk_status::ok},
      {&wrong, content_check::none, 0, size - 1, chunk_status::wrong_size},
      {&wrong, content_check::none, 12, size, chunk_status::corrupt_stream},
      {&wrong, content_check::none, 99, size, chunk_status::library_failed},
  };
  std::vector<decode_part> parts;
  std::vector<std::int32_t> outcomes;
  std::vector<std::uint64_t> made;
  for (const row& each : rows) {
    parts.push_back({address_of(*each.stream), address_of(content_bytes), 20, size,
                     static_cast<std::uint32_t>(parts.size()), static_cast<std::uint32_t>(each.check)});
    outcomes.push_back(each.outcome);
    made.push_back(each.made);
  }
  std::vector<std::uint32_t> statuses(parts.size(), 0);
  library_wave wave{};
  wave.parts = address_of(parts);
  wave.outcomes = address_of(outcomes);
  wave.actual_bytes = address_of(made);
  wave.statuses = address_of(statuses);
  wave.part_count = static_cast<std::uint32_t>(parts.size());
  emulator::forget_memory();
  give_memory(parts.data(), parts.size() * sizeof(parts[0]), "the parts", content::written, use::read);
  give_memory(outcomes.data(), 4 * outcomes.size(), "the outcomes", content::written, use::read);
  give_memory(made.data(), 8 * made.size(), "the sizes", content::written, use::read);
  give_memory(statuses.data(), 4 * statuses.size(), "the statuses", content::written, use::write);
  give_memory(content_bytes.data(), size, "the target", content::written, use::read);
  for (const auto* stream : {&zlib_stream, &gzip_stream, &wrong})
    give_memory(stream->data(), stream->size(), "the source", content::written, use::read);
  run_on_host(kernel_id::library_check, wave.part_count, 32, &wave);
  for (std::size_t i = 0; i < parts.size(); ++i)
    EXPECT_EQ(statuses[i], static_cast<std::uint32_t>(rows[i].expected)) << i;
}

}  // namespace
}  // namespace penstock::inline v0
