#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "driver/reference_tree.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/parquet/parquet_file.h"

namespace penstock::inline v0 {
namespace {

/// Files of one array that are requested without a listing.
constexpr std::uint64_t kMaxProbed = 10'000;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 27;
constexpr std::size_t kMaxLocation = std::size_t{1} << 16;
constexpr std::size_t kAtOnce = 16;
constexpr std::string_view kRecordBegin = "refs.", kRecordEnd = ".parq";

/// The numbers of the files of one array in a listing.
class record_names final : public key_sink {
 public:
  record_names(std::size_t skipped, std::uint64_t count) : skipped_(skipped), count_(count) {}
  bool key(std::string_view key, std::uint64_t) override {
    key.remove_prefix(std::min(skipped_, key.size()));
    if (!key.starts_with(kRecordBegin) || !key.ends_with(kRecordEnd) ||
        key.size() <= kRecordBegin.size() + kRecordEnd.size())
      return true;
    key = key.substr(kRecordBegin.size(), key.size() - kRecordBegin.size() - kRecordEnd.size());
    std::uint64_t number = 0;
    for (const char c : key) {
      if (c < '0' || c > '9' || !checked_mul(number, 10, number) ||
          !checked_add(number, static_cast<std::uint64_t>(c - '0'), number))
        return true;
    }
    if (number < count_) found.push_back(number);
    return true;
  }
  std::vector<std::uint64_t> found;

 private:
  std::size_t skipped_;
  std::uint64_t count_;
};

result<std::vector<std::uint64_t>> records_of(const store& from, const std::string& folder, std::uint64_t count) {
  std::vector<std::uint64_t> out;
  if (count <= kMaxProbed) {
    for (std::uint64_t i = 0; i < count; ++i) out.push_back(i);
    return out;
  }
  record_names names(folder.size(), count);
  auto listed = from.list(folder, listing::children, names);
  if (!listed.ok()) {
    return error(errc::unsupported, fmt::format("references in up to {} files at '{}', which cannot be listed, are not "
                                                "readable",
                                                count, folder));
  }
  std::sort(names.found.begin(), names.found.end());
  names.found.erase(std::unique(names.found.begin(), names.found.end()), names.found.end());
  return std::move(names.found);
}

/// A column by name; nothing if the file has none.
result<std::optional<parquet_values>> column_of(const parquet_file& file, std::string_view name) {
  for (std::size_t i = 0; i < file.columns(); ++i) {
    if (file.name(i) != name) continue;
    PENSTOCK_ASSIGN(parquet_values values, file.read(i));
    return std::optional(std::move(values));
  }
  return std::optional<parquet_values>();
}

result<> check_text(const std::optional<parquet_values>& column, std::string_view name) {
  if (!column || column->numbers.empty()) return {};
  return error(errc::corrupt_data, fmt::format("column '{}' of references is not text", name));
}

/// Numbers by row, 0 if the column does not have one.
class row_numbers {
 public:
  row_numbers(const std::optional<parquet_values>& column, std::string_view name) : column_(column), name_(name) {}
  /// Rows are requested in ascending order.
  result<std::uint64_t> at(std::uint32_t row) {
    if (!column_) return std::uint64_t{0};
    while (next_ < column_->rows.size() && column_->rows[next_] < row) ++next_;
    if (next_ == column_->rows.size() || column_->rows[next_] != row) return std::uint64_t{0};
    if (column_->numbers.empty() || column_->numbers[next_] < 0)
      return error(errc::corrupt_data, fmt::format("column '{}' of references is not a number of bytes", name_));
    return static_cast<std::uint64_t>(column_->numbers[next_]);
  }

 private:
  const std::optional<parquet_values>& column_;
  std::string_view name_;
  std::size_t next_ = 0;
};

bool is_plain_name(std::string_view name) {
  return name.find("://") == std::string_view::npos && !name.starts_with('/');
}

}  // namespace

result<> add_parquet_references(std::span<const std::byte> bytes, const std::string& base, std::uint64_t first,
                                std::uint64_t cells, std::uint64_t record_size, reference_rows& out) {
  PENSTOCK_ASSIGN(const parquet_file file, parquet_file::open(bytes));
  if (file.rows() > record_size) {
    return error(errc::corrupt_data, fmt::format("{} rows, 'record_size' is {}", file.rows(), record_size));
  }
  PENSTOCK_ASSIGN(const auto names, column_of(file, "path"));
  PENSTOCK_ASSIGN(const auto raw, column_of(file, "raw"));
  PENSTOCK_TRY(check_text(names, "path"));
  PENSTOCK_TRY(check_text(raw, "raw"));
  PENSTOCK_ASSIGN(const auto offsets, column_of(file, "offset"));
  PENSTOCK_ASSIGN(const auto sizes, column_of(file, "size"));
  row_numbers offset(offsets, "offset"), size(sizes, "size");
  std::size_t next_raw = 0;
  for (std::size_t i = 0; raw && i < raw->rows.size() && first + raw->rows[i] < cells; ++i)
    PENSTOCK_TRY(out.add(first + raw->rows[i], raw->texts[i], true, 0, raw->texts[i].size()));
  for (std::size_t i = 0; names && i < names->rows.size() && first + names->rows[i] < cells; ++i) {
    const std::uint32_t row = names->rows[i];
    const std::string_view name = names->texts[i];
    while (raw && next_raw < raw->rows.size() && raw->rows[next_raw] < row) ++next_raw;
    const bool is_inlined = raw && next_raw < raw->rows.size() && raw->rows[next_raw] == row;
    if (name.empty() || is_inlined) continue;
    if (name.size() > kMaxLocation) {
      return error(errc::unsupported, fmt::format("a location of more than {} characters", kMaxLocation));
    }
    PENSTOCK_ASSIGN(const std::uint64_t at, offset.at(row));
    PENSTOCK_ASSIGN(const std::uint64_t length, size.at(row));
    // Relative names are relative to the file that contains them.
    if (is_plain_name(name) && !base.empty()) {
      PENSTOCK_TRY(out.add(first + row, fmt::format("{}/{}", base, name), false, at, length));
    } else {
      PENSTOCK_TRY(out.add(first + row, name, false, at, length));
    }
  }
  return {};
}

result<reference_rows> read_parquet_references(const store& from, const std::string& prefix, const std::string& path,
                                               const std::string& base, std::uint64_t cells,
                                               std::uint64_t record_size) {
  const std::string folder = path.empty() ? prefix : prefix + path + "/";
  PENSTOCK_ASSIGN(const std::vector<std::uint64_t> records, records_of(from, folder, ceil_div(cells, record_size)));
  reference_rows out;
  std::vector<std::string> keys;
  for (std::size_t begin = 0; begin < records.size(); begin += kAtOnce) {
    const auto some = std::span(records).subspan(begin, std::min(kAtOnce, records.size() - begin));
    keys.clear();
    for (const std::uint64_t each : some)
      keys.push_back(fmt::format("{}{}{}{}", folder, kRecordBegin, each, kRecordEnd));
    const auto files = read_all_and_wait(from, keys, {}, kMaxFileBytes);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!files[i].ok()) {
        if (files[i].error().code() == errc::not_found) continue;  // none of its chunks was written
        return files[i].error().clone().note(read_note(keys[i], {}));
      }
      auto added = add_parquet_references(files[i]->bytes, base, some[i] * record_size, cells, record_size, out);
      if (!added.ok()) return std::move(added).error().note(fmt::format("reading '{}'", keys[i]));
    }
  }
  return out;
}

}  // namespace penstock::inline v0
