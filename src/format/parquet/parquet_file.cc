#include "format/parquet/parquet_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "format/parquet/parquet_pages.h"
#include "format/parquet/thrift_reader.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr std::size_t kTailBytes = 8;  // length of the footer, magic
constexpr std::size_t kMaxColumns = 1000;

using type = thrift_reader::type;
using field = thrift_reader::field;

error damaged(std::string_view what) { return {errc::corrupt_data, fmt::format("Parquet file: {}", what)}; }

}  // namespace

class parquet_file::footer_parser {
 public:
  footer_parser(std::span<const std::byte> footer, parquet_file& out) : in_(footer), out_(out) {}

  result<> parse() {
    std::int64_t rows = 0;
    in_.structure([&](const field& each) {
      if (each.id == 2 && each.kind == type::list)
        in_.list(each, [this](type element) { schema_element(element); });
      else if (each.id == 3)
        rows = in_.integer(each);
      else if (each.id == 4 && each.kind == type::list)
        in_.list(each, [this](type element) { group(element); });
      else
        in_.skip(each.kind);
    });
    if (in_.failed()) return damaged("its footer is not readable");
    if (rows < 0) return damaged(fmt::format("it has {} rows", rows));
    if (nested_) return error(errc::unsupported, "Parquet file: nested columns are not readable");
    if (!has_root_ || root_children_ != static_cast<std::int64_t>(out_.columns_.size()))
      return damaged(fmt::format("its schema has {} columns, it lists {}", root_children_, out_.columns_.size()));
    std::int64_t sum = 0;
    for (const row_group& each : out_.groups_) {
      if (each.chunks.size() != out_.columns_.size() || each.rows < 0 || each.rows > rows - sum)
        return damaged("its row groups contradict its schema");
      sum += each.rows;
    }
    if (sum != rows) return damaged(fmt::format("it has {} rows, its row groups {}", rows, sum));
    out_.rows_ = static_cast<std::uint64_t>(rows);
    return {};
  }

 private:
  void schema_element(type element) {
    if (element != type::structure) return in_.skip(element);
    column made;
    std::int64_t children = -1, repetition = 0;
    in_.structure([&](const field& each) {
      if (each.id == 1)
        made.type = in_.integer(each);
      else if (each.id == 3)
        repetition = in_.integer(each);
      else if (each.id == 4)
        made.name = in_.binary(each.kind);
      else if (each.id == 5)
        children = in_.integer(each);
      else
        in_.skip(each.kind);
    });
    if (!has_root_) {
      has_root_ = true;
      root_children_ = children;
      return;
    }
    nested_ = nested_ || children > 0 || repetition > 1 || out_.columns_.size() >= kMaxColumns;
    made.optional = repetition == 1;
    if (!nested_) out_.columns_.push_back(std::move(made));
  }

  void group(type element) {
    if (element != type::structure) return in_.skip(element);
    row_group& made = out_.groups_.emplace_back();
    in_.structure([&](const field& each) {
      if (each.id == 1 && each.kind == type::list)
        in_.list(each, [&](type of) { column_chunk(of, made); });
      else if (each.id == 3)
        made.rows = in_.integer(each);
      else
        in_.skip(each.kind);
    });
  }

  void column_chunk(type element, row_group& in_group) {
    if (element != type::structure) return in_.skip(element);
    chunk made;
    in_.structure([&](const field& each) {
      if (each.id == 3 && each.kind == type::structure)
        in_.structure([&](const field& inner) { chunk_field(inner, made); });
      else
        in_.skip(each.kind);
    });
    in_group.chunks.push_back(made);
  }

  void chunk_field(const field& of, chunk& out) {
    switch (of.id) {
      case 1:
        out.type = in_.integer(of);
        return;
      case 4:
        out.codec = in_.integer(of);
        return;
      case 5:
        out.values = in_.integer(of);
        return;
      case 7:
        out.bytes = in_.integer(of);
        return;
      case 9:
        out.data_offset = in_.integer(of);
        return;
      case 11:
        out.dictionary_offset = in_.integer(of);
        return;
      default:
        in_.skip(of.kind);
    }
  }

  thrift_reader in_;
  parquet_file& out_;
  bool has_root_ = false, nested_ = false;
  std::int64_t root_children_ = 0;
};

result<parquet_file> parquet_file::open(std::span<const std::byte> file, const parquet_limits& limits) {
  const auto has_magic = [&](std::size_t at) {
    return std::memcmp(file.data() + at, kMagic.data(), kMagic.size()) == 0;
  };
  if (file.size() < kMagic.size() + kTailBytes || !has_magic(0)) return damaged("it does not begin with PAR1");
  if (!has_magic(file.size() - kMagic.size())) {
    const bool encrypted = std::memcmp(file.data() + file.size() - kMagic.size(), "PARE", kMagic.size()) == 0;
    return encrypted ? error(errc::unsupported, "Parquet file: it is encrypted") : damaged("it does not end with PAR1");
  }
  std::uint64_t footer = 0;
  for (std::size_t i = 4; i-- > 0;)
    footer = footer << 8 | static_cast<std::uint64_t>(file[file.size() - kTailBytes + i]);
  if (footer > file.size() - kMagic.size() - kTailBytes)
    return damaged(fmt::format("its footer has {} bytes, it has {}", footer, file.size()));
  parquet_file out;
  out.file_ = file;
  out.limits_ = limits;
  const std::size_t begin = file.size() - kTailBytes - static_cast<std::size_t>(footer);
  PENSTOCK_TRY(footer_parser(file.subspan(begin, static_cast<std::size_t>(footer)), out).parse());
  if (out.rows_ > limits.rows)
    return error(errc::unsupported,
                 fmt::format("Parquet file: {} rows, at most {} are readable", out.rows_, limits.rows));
  return out;
}

result<parquet_values> parquet_file::read(std::size_t which) const {
  const column& of = columns_[which];
  if (of.type != kParquetInt32 && of.type != kParquetInt64 && of.type != kParquetByteArray) {
    return error(errc::unsupported,
                 fmt::format("Parquet file: column '{}' is {}, INT32, INT64 and BYTE_ARRAY are readable", of.name,
                             parquet_type_name(of.type)));
  }
  parquet_values out;
  std::uint64_t row = 0, bytes_left = limits_.bytes;
  for (const row_group& group : groups_) {
    const chunk& from = group.chunks[which];
    const auto noted = [&](error failure) { return std::move(failure).note(fmt::format("column '{}'", of.name)); };
    if (from.type != of.type || from.values != group.rows)
      return noted(damaged(fmt::format("{} values in {} rows", from.values, group.rows)));
    const std::int64_t begin =
        from.dictionary_offset > 0 ? std::min(from.dictionary_offset, from.data_offset) : from.data_offset;
    const auto size = static_cast<std::int64_t>(file_.size());
    if (begin < 0 || begin > size || from.bytes < 0 || from.bytes > size - begin)
      return noted(damaged(fmt::format("{} bytes at {} of {}", from.bytes, begin, size)));
    parquet_pages pages(file_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(from.bytes)),
                        {of.type, from.codec, of.optional}, bytes_left);
    auto read = pages.read(row, static_cast<std::uint64_t>(group.rows), out);
    if (!read.ok()) return noted(std::move(read).error());
    row += static_cast<std::uint64_t>(group.rows);
  }
  return out;
}

}  // namespace penstock::inline v0
