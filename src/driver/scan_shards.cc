#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <unordered_set>

#include "base/checked.h"
#include "base/counted.h"
#include "driver/complaints.h"
#include "driver/for_each_file.h"
#include "driver/shard_table.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "format/npy/npy_header.h"
#include "format/zarr/zarr_data_type.h"

namespace penstock::inline v0 {
namespace {

/// One file as described by its header (or its size).
struct scanned {
  json descr;
  storage_order order = storage_order::c;
  extents shape;
  std::uint64_t offset = 0;
  std::uint64_t size = byte_range::kAll;
  version seen;
};

result<std::uint64_t> item_bytes_of(const json& descr) {
  const auto parsed = parse_v2_dtype(descr, "descr");
  if (!parsed.ok()) return error(parsed.error().code(), fmt::format("items of type {} are not readable", descr.dump()));
  const zarr_v2_type& type = *parsed;
  if (type.type.kind() == dtype_kind::object || type.type.variable_length())
    return error(errc::unsupported, "contiguous files cannot have items of variable length");
  return type.type.item_bytes();
}

// The bytes that the items of `shape` take, from `offset` on.
result<std::uint64_t> end_of(const scanned& file, std::uint64_t item_bytes) {
  std::uint64_t bytes = item_bytes;
  for (const std::uint64_t length : file.shape)
    if (!checked_mul(bytes, length, bytes)) return error(errc::corrupt_data, "the shape has more than 2^64 bytes");
  if (!checked_add(bytes, file.offset, bytes)) return error(errc::corrupt_data, "the shape has more than 2^64 bytes");
  return bytes;
}

/// \param begin  The first bytes of the file.
result<scanned> scan_npy(const store& from, const std::string& key, result<blocking_read> begin) {
  if (!begin.ok()) return std::move(begin).error();
  if (begin->bytes.empty()) return error(errc::corrupt_data, "the file has no bytes");
  PENSTOCK_ASSIGN(const std::uint64_t header_bytes, npy_header_bytes(begin->bytes));
  if (header_bytes > begin->bytes.size()) {
    PENSTOCK_ASSIGN(begin, read_and_wait(from, key, {0, header_bytes, false}, header_bytes, &begin->seen));
  }
  PENSTOCK_ASSIGN(npy_header header, parse_npy_header(begin->bytes));
  scanned out{std::move(header.descr), header.order,       std::move(header.shape),
              header.data_offset,      begin->object_size, begin->seen};
  return out;
}

result<scanned> scan_npy(const store& from, const std::string& key) {
  auto begin = read_and_wait(from, key, {0, kNpyProbeBytes, false}, kNpyProbeBytes);
  // Only files with a few items or none can be shorter than that.
  if (!begin.ok() && begin.error().code() == errc::corrupt_data) begin = read_and_wait(from, key, {}, kNpyProbeBytes);
  return scan_npy(from, key, std::move(begin));
}

result<scanned> scan_raw(const store& from, const std::string& key, const raw_options& how, const json& descr,
                         std::uint64_t item_bytes, std::size_t axis, std::optional<std::uint64_t> rows) {
  scanned out;
  out.descr = descr;
  out.order = how.fortran_order ? storage_order::fortran : storage_order::c;
  out.offset = how.offset;
  auto looked = read_and_wait(from, key, {0, 0, false}, byte_range::kAll);
  if (!looked.ok()) return std::move(looked).error();
  out.size = looked->object_size;
  out.seen = looked->seen;
  const bool declared = rows || (how.shape && !how.shape->empty());
  if (out.size == 0 && item_bytes != 0 && !declared)
    return error(errc::corrupt_data, "the file is empty, and its row count is not known to be 0");
  if (how.shape) {
    out.shape = *how.shape;
  } else {
    if (out.size == byte_range::kAll)
      return error(errc::unsupported, "the store does not report the file's size: give its shape");
    extents row = how.row_shape ? *how.row_shape : extents();
    std::uint64_t row_bytes = item_bytes;
    for (const std::uint64_t length : row)
      if (!checked_mul(row_bytes, length, row_bytes)) return error(errc::invalid_argument, "row_shape is too large");
    if (out.size < how.offset)
      return error(errc::corrupt_data,
                   fmt::format("the file has {}, its items begin at {}", counted(out.size, "byte"), how.offset));
    const std::uint64_t bytes = out.size - how.offset;
    if (row_bytes == 0 ? bytes != 0 || !rows : bytes % row_bytes != 0)
      return error(errc::corrupt_data, fmt::format("a length of {} is not a whole number of rows of {}",
                                                   counted(bytes, "byte"), row_bytes));
    for (std::size_t d = 0; d < axis; ++d) out.shape.push_back(row[d]);
    out.shape.push_back(row_bytes == 0 ? *rows : bytes / row_bytes);
    for (std::size_t d = axis; d < row.size(); ++d) out.shape.push_back(row[d]);
  }
  if (rows && *rows != out.shape[axis])
    return error(errc::corrupt_data,
                 fmt::format("the file has {}, expected {}", counted(out.shape[axis], "row"), *rows));
  PENSTOCK_ASSIGN(const std::uint64_t end, end_of(out, item_bytes));
  if (out.size != byte_range::kAll && out.size != end)
    return error(errc::corrupt_data,
                 fmt::format("the file has {}, its shape needs {}", counted(out.size, "byte"), end));
  return out;
}

// If at most one dimension is longer than 1, or there are no items, both orders are the same, and NumPy writes C.
bool has_order(const scanned& file) {
  if (std::find(file.shape.begin(), file.shape.end(), 0U) != file.shape.end()) return false;
  return std::count_if(file.shape.begin(), file.shape.end(), [](std::uint64_t length) { return length > 1; }) > 1;
}

std::string shape_text(const extents& shape, std::size_t axis) {
  std::string out = "(";
  for (std::size_t d = 0; d < shape.size(); ++d)
    out += (d == 0 ? "" : ", ") + (d == axis ? std::string("*") : fmt::format("{}", shape[d]));
  return out + ")";
}

bool same_but(const extents& a, const extents& b, std::size_t axis) {
  if (a.size() != b.size()) return false;
  for (std::size_t d = 0; d < a.size(); ++d)
    if (d != axis && a[d] != b[d]) return false;
  return true;
}

std::string describe(const scanned& file, std::size_t axis) {
  return fmt::format("{} {}{}", file.descr.as_string() != nullptr ? *file.descr.as_string() : file.descr.dump(),
                     shape_text(file.shape, axis), file.order == storage_order::fortran ? " in Fortran order" : "");
}

result<> check_unique(const std::vector<std::string>& keys) {
  std::unordered_set<std::string_view> seen;
  complaints twice;
  for (const std::string& key : keys)
    if (!seen.insert(key).second) twice.add(key, "was given before");
  if (twice.any()) return twice.make(errc::invalid_argument, "are given twice", keys.size());
  return {};
}

result<json> descr_of(const raw_options& raw) {
  if (raw.dtype.starts_with('[')) return json::parse(raw.dtype);
  return json(raw.dtype);
}

result<std::size_t> place_of_axis(std::int64_t axis, std::size_t rank) {
  const auto dimensions = static_cast<std::int64_t>(rank);
  if (axis < -dimensions || axis >= dimensions)
    return error(errc::invalid_argument,
                 fmt::format("axis {} is out of range for files with {}", axis, counted(rank, "dimension")));
  return static_cast<std::size_t>(axis < 0 ? axis + dimensions : axis);
}

// Reads every file's header; an error takes the place of a header that cannot be read.
std::vector<result<scanned>> scan_all(const store& from, const std::vector<std::string>& keys,
                                      const std::function<result<scanned>(std::size_t)>& scan, context& with) {
  std::vector<result<scanned>> found;
  found.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) found.emplace_back(scanned());
  for_each_file(keys.size(), from, with, [&](std::size_t i) { found[i] = scan(i); });
  return found;
}

}  // namespace

result<> add_lengths(shard_table& table) {
  std::uint64_t total = 0;
  for (const raw_part& each : table.parts)
    if (!checked_add(total, each.length, total)) return error(errc::unsupported, "the files have more than 2^64 rows");
  if (!table.shape.empty()) table.shape[table.axis] = total;
  return {};
}

result<> mark_missing(const store& from, shard_table& table, context& with) {
  std::vector<std::optional<error>> failed(table.parts.size());
  for_each_file(table.parts.size(), from, with, [&](std::size_t i) {
    auto looked = read_and_wait(from, table.parts[i].key, {0, 0, false}, byte_range::kAll);
    if (looked.ok()) return;
    if (looked.error().code() == errc::not_found)
      table.parts[i].missing = true;
    else
      failed[i] = std::move(looked).error();
  });
  for (std::size_t i = 0; i < failed.size(); ++i)
    if (failed[i]) return std::move(*failed[i]).note(fmt::format("looking for '{}'", table.parts[i].key));
  return {};
}

bool shards_changed(const array& of) {
  const auto& table = of.state().files;
  if (!table) return false;
  std::atomic<bool> changed = false;
  for_each_file(table->parts.size(), *of.state().store, *of.state().context, [&](std::size_t i) {
    const raw_part& each = table->parts[i];
    if (!each.expected.known() || changed.load(std::memory_order_relaxed)) return;
    if (!read_and_wait(*of.state().store, each.key, {0, 0, false}, byte_range::kAll, &each.expected).ok())
      changed.store(true, std::memory_order_relaxed);
  });
  return changed.load();
}

result<shard_table> scan_shards(const store& from, std::vector<std::string> keys, const shard_options& options,
                                context& with, const object_head* head) {
  if (keys.empty()) return error(errc::invalid_argument, "the list of files is empty");
  PENSTOCK_TRY(check_unique(keys));
  json descr;
  std::uint64_t raw_item_bytes = 0;
  std::size_t raw_axis = 0;
  if (options.raw) {
    PENSTOCK_ASSIGN(descr, descr_of(*options.raw));
    PENSTOCK_ASSIGN(raw_item_bytes, item_bytes_of(descr));
    const std::size_t rank = options.raw->shape       ? options.raw->shape->size()
                             : options.raw->row_shape ? options.raw->row_shape->size() + 1
                                                      : 1;
    if (rank > kMaxRank)
      return error(errc::unsupported, fmt::format("arrays have at most {} dimensions, these have {}", kMaxRank, rank));
    PENSTOCK_ASSIGN(raw_axis, place_of_axis(options.axis, rank));
  }
  if (options.raw && !options.raw->rows.empty() && options.raw->rows.size() != keys.size())
    return error(errc::invalid_argument,
                 fmt::format("one length is needed for each file: got {} for {}",
                             counted(options.raw->rows.size(), "length"), counted(keys.size(), "file")));
  const auto scan = [&](std::size_t i) {
    if (!options.raw && head != nullptr)
      return scan_npy(from, keys[i], blocking_read{head->bytes, head->seen, head->object_size});
    if (!options.raw) return scan_npy(from, keys[i]);
    const std::vector<std::optional<std::uint64_t>>& rows = options.raw->rows;
    return scan_raw(from, keys[i], *options.raw, descr, raw_item_bytes, raw_axis,
                    rows.empty() ? std::optional<std::uint64_t>() : rows[i]);
  };
  std::vector<result<scanned>> found = scan_all(from, keys, scan, with);

  complaints unreadable;
  std::optional<errc> worst;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (found[i].ok()) continue;
    if (!worst) worst = found[i].error().code();
    unreadable.add(keys[i], found[i].error().message());
  }
  if (worst) return unreadable.make(*worst, "cannot be read", keys.size());

  shard_table out;
  const scanned& first = *found[0];
  const bool alone = keys.size() == 1 && first.shape.empty();
  if (!alone) {
    complaints scalars;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (found[i]->shape.empty()) scalars.add(keys[i], "a scalar has no axis to join along");
    if (scalars.any()) return scalars.make(errc::invalid_argument, "are scalars", keys.size());
    PENSTOCK_ASSIGN(out.axis, place_of_axis(options.axis, first.shape.size()));
  }
  storage_order order = storage_order::c;
  const auto ordered = std::find_if(found.begin(), found.end(), [](const auto& each) { return has_order(*each); });
  if (ordered != found.end()) order = (*ordered)->order;
  complaints others, turned;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const scanned& each = *found[i];
    if (each.descr != first.descr || !same_but(each.shape, first.shape, out.axis)) {
      others.add(keys[i], describe(each, out.axis));
    } else if (each.order != order && has_order(each)) {
      turned.add(keys[i], describe(each, out.axis));
    }
  }
  if (others.any()) {
    return others.make(errc::invalid_argument, fmt::format("do not match '{}', {}", keys[0], describe(first, out.axis)),
                       keys.size());
  }

  if (turned.any()) {
    const std::size_t like = static_cast<std::size_t>(ordered - found.begin());
    return turned.make(errc::unsupported, fmt::format("have another item order than '{}'", keys[like]), keys.size());
  }

  PENSTOCK_ASSIGN(const std::uint64_t item_bytes, item_bytes_of(first.descr));
  complaints shorter;
  out.parts.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const scanned& each = *found[i];
    PENSTOCK_ASSIGN(const std::uint64_t end, end_of(each, item_bytes));
    if (each.size != byte_range::kAll && each.size < end)
      shorter.add(keys[i], fmt::format("has {}, its header needs {}", counted(each.size, "byte"), end));
    out.parts.push_back({std::move(keys[i]), alone ? 1 : each.shape[out.axis], each.offset, each.seen});
  }
  if (shorter.any()) return shorter.make(errc::corrupt_data, "are truncated", found.size());
  out.format = options.raw ? "raw" : "npy";
  out.descr = first.descr;
  out.order = order;
  out.shape = first.shape;
  PENSTOCK_TRY(add_lengths(out));
  return out;
}

}  // namespace penstock::inline v0
