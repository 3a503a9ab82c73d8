// How a write_job encodes one cell. Called without the job's lock.

#include <cstring>

#include <fmt/format.h>

#include <penstock/variable.h>
#include "array/equals_fill.h"
#include "array/strided_copy.h"
#include "codec/codec_chain.h"
#include "engine/cell_source.h"
#include "engine/context_state.h"
#include "engine/write_fence.h"
#include "engine/write_job.h"
#include "engine/write_job_parts.h"

namespace penstock::inline v0 {
namespace {

/// Memory that is reserved for a cell before it is encoded, if that is much more than the cell.
constexpr std::uint64_t kMaxRoomBytes = std::uint64_t{256} << 20;

// Items of variable length are equal if their bytes are.
bool all_items_equal(const tensor_view& cell, const std::byte* fill) noexcept {
  variable_item wanted;
  std::memcpy(&wanted, fill, sizeof wanted);
  dim_vector<std::uint64_t> at(cell.extents.size(), 0);
  const std::byte* from = cell.data;
  for (;;) {
    variable_item item;
    std::memcpy(&item, from, sizeof item);
    if (item.text() != wanted.text()) return false;
    std::size_t d = at.size();
    while (d-- > 0) {
      from += cell.strides[d];
      if (++at[d] < cell.extents[d]) break;
      from -= cell.strides[d] * static_cast<std::int64_t>(at[d]);
      at[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return true;
  }
}

bool is_fill(const tensor_view& cell, const std::byte* fill) noexcept {
  if (!cell.type.variable_length()) return equals_fill(cell.data, cell.strides, cell.extents, fill, cell.type);
  // Only Python can compare two of its objects.
  return cell.type.kind() != dtype_kind::object && all_items_equal(cell, fill);
}

bool fills_codec_shape(const placement& where, const extents& cell) noexcept {
  if (where.target.indexed != nullptr) return false;
  for (std::size_t d = 0; d < cell.size(); ++d)
    if (where.counts[d] != cell[d]) return false;
  return true;
}

// Values that a source lends while a cell is encoded.
class borrowed_values {
 public:
  explicit borrowed_values(cell_source* from) noexcept : from_(from) {}
  ~borrowed_values() {
    if (lent_.block != nullptr) from_->give(lent_);
  }
  borrowed_values(const borrowed_values&) = delete;
  borrowed_values& operator=(const borrowed_values&) = delete;

  result<std::byte*> take(const placement& where, buffer& spare) {
    PENSTOCK_ASSIGN(lent_, from_->take(where, spare));
    return const_cast<std::byte*>(lent_.bytes.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
  }

 private:
  cell_source* from_;
  lent_values lent_;
};

}  // namespace

// Whether a cell is encoded into a worker's own memory first, because its bound is much larger than its likely size.
bool write_job::encodes_elsewhere(const codec_chain& chain) noexcept {
  return chain.max_encoded_bytes() > kMaxRoomBytes && chain.max_encoded_bytes() / 2 > chain.decoded_bytes();
}

result<> write_job::encode_cell(open_object& of, touched_cell& cell, unsigned worker) {
  worker_state& mine = *workers_[worker];
  const source& from = *of.from;
  const codec_chain& chain = layout_->chains()[cell.chain];
  const std::uint32_t item_bytes = chain.type().item_bytes();
  place_cell(from, cell.cell, mine.where);
  cell.unchanged = false;  // of an earlier attempt, when the object was another one
  if (with_.values != nullptr && mine.where.target.covers_cell) {
    PENSTOCK_ASSIGN(const bool done, take_encoded(of, cell, worker));
    if (done) return {};
  }
  borrowed_values lent(with_.values);
  source elsewhere;
  const source* values = &from;
  if (with_.values != nullptr) {
    PENSTOCK_ASSIGN(elsewhere.to, lent.take(mine.where, mine.values));
    values = &elsewhere;
    mine.where.offset = 0;
    mine.where.target.data = elsewhere.to;
    mine.where.target.strides = c_order_strides(mine.where.counts, item_bytes);
  }

  const strides c_order = c_order_strides(chain.cell(), item_bytes);
  tensor_view view{mine.where.target.data, chain.type(), chain.cell(), mine.where.target.strides, memory_space::host};
  bool in_room = false;  // the cell is at the address for its encoded bytes
  std::span<std::byte> room;
  // Lent values are released before the object is put, and converted elements do not exist yet.
  const bool copies = (with_.values != nullptr && chain.is_identity()) || from.convert != nullptr;
  if (!mine.where.target.covers_cell || copies) {
    if (chain.is_identity()) {
      PENSTOCK_ASSIGN(room, room_for(of, chain.decoded_bytes(), worker));
      in_room = true;
    } else {
      PENSTOCK_ASSIGN(room, mine.cell.reserve(chain.decoded_bytes()));
    }
    bool from_old = (!cell.whole || cell.edge) && cell.present;
    if (from_old) {
      strided_box all;
      for (const std::uint64_t length : chain.cell()) all.push_back({0, 1, length});
      decode_target target;
      target.data = room.data();
      target.strides = c_order;
      target.in_cell = &all;
      target.covers_cell = true;
      const part old = cell.old.whole() ? of.old.bytes
                                        : of.old.bytes.subspan(static_cast<std::size_t>(cell.old.offset),
                                                               static_cast<std::size_t>(cell.old.length));
      mine.scratch.forget_own_items();  // items of the preceding cell
      auto decoded = chain.decode(old, target, mine.scratch);
      // Damage in the range in which no other writer has elements is repaired by writing it.
      from_old = decoded.ok();
      if (!decoded.ok()) {
        const bool repairs = cell.whole && decoded.error().code() == errc::corrupt_data && with_.edges->quiet();
        if (!repairs) return std::move(decoded).error().note("decoding what is to be changed");
      }
    }
    if (!from_old && !fills_codec_shape(mine.where, chain.cell()))
      strided_fill(room.data(), c_order, chain.cell(), from.fill, item_bytes);
    const bool compares = with_.skip_unchanged && from_old && !chain.type().variable_length();
    if (compares) {
      PENSTOCK_ASSIGN(const std::span<std::byte> before, mine.before.reserve(chain.decoded_bytes()));
      std::memcpy(before.data(), room.data(), static_cast<std::size_t>(chain.decoded_bytes()));
    }
    gather(*values, mine.where, room.data(), chain);
    cell.unchanged =
        compares && std::memcmp(mine.before.data(), room.data(), static_cast<std::size_t>(chain.decoded_bytes())) == 0;
    view.data = room.data();
    view.strides = c_order;
  }

  cell.encoded = true;
  cell.absent = !with_.write_empty_chunks && is_fill(view, from.fill);
  cell.bytes = {};
  if (with_.skip_unchanged && !cell.present && is_fill(view, from.fill)) cell.unchanged = true;
  if (cell.absent || cell.unchanged) return {};
  const auto decoded_bytes = static_cast<std::size_t>(chain.decoded_bytes());
  if (in_room) {
    cell.bytes = room.first(decoded_bytes);
    mine.current->used += decoded_bytes;
    return {};
  }
  if (chain.is_identity() && lands_contiguously(mine.where, chain.cell(), item_bytes)) {
    cell.bytes = {view.data, decoded_bytes};  // the caller's memory is written directly
    return {};
  }
  if (encodes_elsewhere(chain)) {
    PENSTOCK_ASSIGN(const part encoded, chain.encode(view, mine.encoded, mine.scratch));
    PENSTOCK_ASSIGN(room, room_for(of, encoded.size(), worker));
    if (!encoded.empty()) std::memcpy(room.data(), encoded.data(), encoded.size());
    cell.bytes = room;
  } else {
    PENSTOCK_ASSIGN(room, room_for(of, chain.max_encoded_bytes(), worker));
    PENSTOCK_ASSIGN(const std::uint64_t used, chain.encode(view, room, mine.scratch));
    cell.bytes = room.first(static_cast<std::size_t>(used));
  }
  mine.current->used += cell.bytes.size();
  return {};
}

// Takes a cell that the device encoded. False: the host encodes it.
result<bool> write_job::take_encoded(open_object& of, touched_cell& cell, unsigned worker) {
  PENSTOCK_ASSIGN(const std::optional<lent_encoded> lent, with_.values->take_encoded(cell.cell));
  if (!lent) return false;
  result<> copied;
  cell.absent = lent->is_fill && !with_.write_empty_chunks;
  cell.unchanged = lent->is_fill && with_.skip_unchanged && !cell.present;
  cell.bytes = {};
  if (!cell.absent && !cell.unchanged) {
    auto room = room_for(of, lent->bytes.size(), worker);
    if (room.ok()) {
      std::memcpy(room->data(), lent->bytes.data(), lent->bytes.size());
      cell.bytes = room->first(lent->bytes.size());
      workers_[worker]->current->used += cell.bytes.size();
    } else {
      copied = std::move(room).error();
    }
  }
  with_.values->give_encoded(*lent);
  PENSTOCK_TRY(std::move(copied));
  cell.encoded = cell.by_source = true;
  return true;
}

}  // namespace penstock::inline v0
