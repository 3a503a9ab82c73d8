#include <penstock/dlpack.h>

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

namespace penstock::inline v0 {
namespace {

enum : std::uint8_t { kInteger = 0, kUnsigned = 1, kFloat = 2, kBrainFloat = 4, kComplex = 5, kBoolean = 6 };

std::optional<std::uint8_t> small_float_code(float_format format) noexcept {
  switch (format) {
    case float_format::float8_e3m4:
      return 7;
    case float_format::float8_e4m3:
      return 8;
    case float_format::float8_e4m3b11fnuz:
      return 9;
    case float_format::float8_e4m3fn:
      return 10;
    case float_format::float8_e4m3fnuz:
      return 11;
    case float_format::float8_e5m2:
      return 12;
    case float_format::float8_e5m2fnuz:
      return 13;
    case float_format::float8_e8m0fnu:
      return 14;
    default:
      return std::nullopt;
  }
}

std::optional<std::uint8_t> code_of(const dtype& type) noexcept {
  switch (type.kind()) {
    case dtype_kind::boolean:
      return kBoolean;
    case dtype_kind::signed_integer:
      return kInteger;
    case dtype_kind::unsigned_integer:
      return kUnsigned;
    case dtype_kind::floating:
      return kFloat;
    case dtype_kind::brain_float:
      return kBrainFloat;
    case dtype_kind::complex:
      if (type.format() != float_format::ieee) return std::nullopt;
      return kComplex;
    case dtype_kind::small_float:
      return small_float_code(type.format());
    default:
      return std::nullopt;
  }
}

// The struct that the consumer sees, the sizes that it points to, and the owner of the memory.
struct exported {
  dlpack_managed_versioned managed{};
  std::vector<std::int64_t> shape, strides;
  std::shared_ptr<const void> owner;

  static void release(dlpack_managed_versioned* managed) { delete static_cast<exported*>(managed->content); }
};

}  // namespace

std::optional<dlpack_type> dlpack_type_of(const dtype& type) noexcept {
  const auto code = code_of(type);
  if (!code || type.bits() % 8 != 0 || type.bits() > 255) return std::nullopt;
  return dlpack_type{*code, static_cast<std::uint8_t>(type.bits()), 1};
}

result<DLManagedTensorVersioned*> to_dlpack(const tensor_view& view, std::shared_ptr<const void> owner,
                                            dlpack_device device, std::uint64_t flags) {
  const auto type = dlpack_type_of(view.type);
  if (!type) return error(errc::unsupported, "DLPack has no data type for " + view.type.name());
  const std::int64_t item_bytes = view.type.item_bytes();
  auto made = std::make_unique<exported>();
  for (std::size_t d = 0; d < view.extents.size(); ++d) {
    if (view.extents[d] > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return error(errc::unsupported, "DLPack's sizes have 63 bits");
    if (view.strides[d] % item_bytes != 0)
      return error(
          errc::unsupported,
          fmt::format("DLPack's strides count elements, and {} bytes are not whole elements", view.strides[d]));
    made->shape.push_back(static_cast<std::int64_t>(view.extents[d]));
    made->strides.push_back(view.strides[d] / item_bytes);
  }
  dlpack_managed_versioned& managed = made->managed;
  managed.major = kDlpackMajor;
  managed.minor = kDlpackMinor;
  managed.flags = flags;
  managed.tensor.data = view.data;
  managed.tensor.device = device;
  managed.tensor.rank = static_cast<std::int32_t>(made->shape.size());
  managed.tensor.type = *type;
  managed.tensor.shape = made->shape.data();
  managed.tensor.strides = made->strides.data();
  managed.content = made.get();
  managed.deleter = &exported::release;
  made->owner = std::move(owner);
  return reinterpret_cast<DLManagedTensorVersioned*>(&made.release()->managed);
}

}  // namespace penstock::inline v0
