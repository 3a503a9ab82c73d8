// One `.npy` file as an array, and patterns of names of such files.
#include <fmt/format.h>

#include <array>
#include <utility>

#include <penstock/shards.h>
#include "driver/drivers.h"
#include "driver/npy_writer.h"
#include "driver/shard_table.h"
#include "format/npy/npy_header.h"

namespace penstock::inline v0 {
namespace {

class npy_format final : public format_driver {
 public:
  std::string_view name() const noexcept override { return "npy"; }
  std::span<const std::string_view> endings() const noexcept override {
    static constexpr std::array<std::string_view, 1> kEndings = {"npy"};
    return kEndings;
  }
  std::string_view written_by() const noexcept override {
    return "penstock.convert or penstock.save in Python, penstock convert, or begin_array in C++";
  }
  bool writes_once() const noexcept override { return true; }
  result<std::unique_ptr<array_writer>> begin(const new_location& at, const create_options& how) const override {
    return begin_npy(at, how);
  }
  result<array> create(const new_location& at, const create_options& how) const override {
    PENSTOCK_ASSIGN(const std::unique_ptr<array_writer> writer, begin(at, how));
    PENSTOCK_TRY(writer->close());
    return open_new_object(at, *this);
  }
  bool has_members() const noexcept override { return false; }
  bool sniff(std::span<const std::byte> begin, std::string_view) const noexcept override { return is_npy(begin); }
  result<node> open(const location& at, const open_options&) const override {
    const auto note = [&] { return fmt::format("opening '{}'", at.uri); };
    auto table = scan_shards(*at.from, {at.path}, {}, *at.context, at.head.get());
    if (!table.ok()) return std::move(table).error().note(note());
    PENSTOCK_ASSIGN(array made,
                    open_table(at.from, std::make_shared<const shard_table>(std::move(*table)), at.context, at.uri));
    return node(std::move(made));
  }
};

}  // namespace

const format_driver& npy_driver() noexcept {
  static const npy_format kDriver;
  return kDriver;
}

}  // namespace penstock::inline v0
