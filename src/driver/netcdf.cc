// A NetCDF classic file as a group whose arrays are its variables.
#include "driver/netcdf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "array/utf8.h"
#include "driver/drivers.h"
#include "driver/plain_references.h"
#include "engine/array_state.h"
#include "engine/blocking_read.h"
#include "engine/index_io.h"
#include "format/zarr/zarr_fill_value.h"

namespace penstock::inline v0 {
namespace {

/// The least end of the second request if requests are expensive. Each later one ends at four times that of the last.
constexpr std::uint64_t kSecondRead = std::uint64_t{256} << 10, kGrowth = 4;

/// Reads the first bytes of a file until its header is complete.
result<std::shared_ptr<const netcdf_file>> read_header(const location& at, std::string key) {
  std::vector<std::byte> bytes = at.head->bytes;
  std::uint64_t size = at.head->object_size, needed = 0;
  const store_traits traits = at.from->traits();
  const bool cheap_requests = traits.inline_completion && traits.request_bytes == 0;
  const std::uint64_t least = traits.request_bytes == 0 ? 0 : kSecondRead;
  for (;;) {
    PENSTOCK_ASSIGN(std::optional<netcdf_header> header, parse_netcdf_header(bytes, size, needed));
    if (header) {
      if (header->streamed && size == byte_range::kAll)
        return error(errc::unsupported,
                     "NetCDF: the header does not have the number of records, and the store not the size of the file");
      return netcdf_file::make(std::move(*header), std::move(key), size, at.head->seen, cheap_requests);
    }
    if (needed > kMaxMetadataBytes)
      return error(errc::unsupported, fmt::format("NetCDF: a header of more than {} bytes", kMaxMetadataBytes));
    const std::uint64_t have = bytes.size();
    std::uint64_t until = std::min(std::max({needed, least, kGrowth * have}), std::min(size, kMaxMetadataBytes));
    byte_range range{have, until - have, false};
    auto read = read_and_wait(*at.from, at.path, range, range.length, &at.head->seen, true);
    if (!read.ok() && read.error().code() == errc::corrupt_data && needed < until) {
      // The object may be shorter, if its store cannot return fewer bytes than requested.
      until = needed;
      range.length = until - have;
      read = read_and_wait(*at.from, at.path, range, range.length, &at.head->seen);
    }
    if (!read.ok()) return std::move(read).error().note(read_note(at.path, range));
    bytes.insert(bytes.end(), read->bytes.begin(), read->bytes.end());
    if (bytes.size() < until) size = bytes.size();  // the object ends here
  }
}

/// The variables of one file. Opening one reads nothing.
class netcdf_members final : public member_source, public std::enable_shared_from_this<netcdf_members> {
 public:
  /// \param where  The location of the arrays: the prefix of their folder, the URI of the file.
  netcdf_members(std::shared_ptr<const netcdf_file> file, array_site where)
      : file_(std::move(file)), where_(std::move(where)) {}

  result<node> open(std::string_view path) const override {
    const std::string inner = prefix_of(path);
    if (inner.empty()) return node(root());
    std::string name = inner.substr(0, inner.size() - 1);
    const auto found = file_->numbers.find(name);
    if (found == file_->numbers.end())
      return error(errc::not_found, fmt::format("the NetCDF file '{}' has no variable '{}'", where_.uri, name));
    auto layout = netcdf_layout::make(file_, found->second);
    if (!layout.ok()) return std::move(layout).error().note(fmt::format("opening '{}/{}'", where_.uri, name));
    return node(array_of(name, std::move(*layout)));
  }

  result<std::optional<std::vector<std::string>>> keys(std::string_view) const override {
    std::vector<std::string> out;
    for (const auto& each : file_->numbers) out.push_back(each.first);
    std::sort(out.begin(), out.end());
    return std::optional<std::vector<std::string>>(std::move(out));
  }

  group root() const {
    auto state = std::make_shared<group_state>();
    state->context = where_.context;
    state->store = where_.store;
    state->opened_for_reading = where_.opened_for_reading;
    state->attributes_json = netcdf_attributes_json(file_->header.attributes).dump();
    state->format = kNetcdfFormat;
    state->uri = where_.uri;
    state->members = shared_from_this();
    return group(std::move(state));
  }

  const std::shared_ptr<const netcdf_file>& file() const noexcept { return file_; }

 private:
  array array_of(const std::string& name, std::shared_ptr<const netcdf_layout> layout) const {
    const netcdf_variable& variable = layout->variable();
    array_site where = where_;
    where.uri = child_uri(where_.uri, name + "/");
    array_facts facts;
    facts.format = kNetcdfFormat;
    facts.shape = layout->shape();
    facts.chunks = layout->block();
    facts.type = dtype_of(variable.type);
    facts.fill_value = netcdf_fill_of(variable);
    if (const auto written = write_fill_value(facts.fill_value, facts.type); written.ok())
      facts.fill_value_json = written->dump();
    facts.attributes_json = netcdf_attributes_json(variable.attributes).dump();
    facts.codecs_json = facts.type.item_bytes() == 1 ? R"([{"name":"bytes"}])"
                                                     : R"([{"name":"bytes","configuration":{"endian":"big"}}])";
    facts.codecs_text = layout->chains()[0].describe();
    for (const std::uint32_t each : variable.dimensions)
      facts.dimension_names.emplace_back(as_utf8(file_->header.dimensions[each].name));
    auto as_references = std::make_shared<referenced_array>();
    as_references->objects.push_back(whole_object(where.store, where.prefix + file_->key, file_->seen));
    as_references->read_table = [layout, where, facts] { return netcdf_references(*layout, where, facts); };
    facts.references = std::move(as_references);
    return array(std::make_shared<const array_state>(std::move(where), std::move(layout), std::move(facts),
                                                     cache_name::lasting, name));
  }

  std::shared_ptr<const netcdf_file> file_;
  array_site where_;
};

class netcdf_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return kNetcdfFormat; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 3> kEndings = {"nc", "nc3", "cdf"};
    return kEndings;
  }
  std::string_view written_by() const noexcept override {
    return "penstock.convert in Python or penstock convert (NetCDF4, named '.nc'), xarray's Dataset.to_netcdf";
  }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override {
    return is_netcdf_classic(begin);
  }
  result<node> open(const location& at, const open_options& how) const override {
    array_site where = site_of(place_of(at, how));
    const std::size_t slash = at.path.rfind('/');
    const std::size_t folder = slash == std::string::npos ? 0 : slash + 1;
    where.prefix = at.path.substr(0, folder);
    where.uri = at.uri;
    auto file = read_header(at, at.path.substr(folder));
    if (!file.ok()) return std::move(file).error().note(fmt::format("opening '{}'", at.uri));
    return node(std::make_shared<const netcdf_members>(std::move(*file), std::move(where))->root());
  }
};

}  // namespace

std::shared_ptr<const netcdf_file> netcdf_file_of(const array_state& of) noexcept {
  const auto* const layout = dynamic_cast<const netcdf_layout*>(of.layout.get());
  return layout == nullptr ? nullptr : layout->file();
}

std::shared_ptr<const netcdf_file> netcdf_file_of(const group_state& of) noexcept {
  const auto* const members = dynamic_cast<const netcdf_members*>(of.members.get());
  return members == nullptr ? nullptr : members->file();
}

const netcdf_variable* netcdf_variable_of(const array_state& of) noexcept {
  const auto* const layout = dynamic_cast<const netcdf_layout*>(of.layout.get());
  return layout == nullptr ? nullptr : &layout->variable();
}

const format_driver& netcdf_driver() noexcept {
  static const netcdf_format kDriver;
  return kDriver;
}

}  // namespace penstock::inline v0
