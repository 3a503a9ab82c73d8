#include <nanobind/stl/pair.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "dlpack.h"

namespace penstock::inline v0::python {

namespace {

// A capsule's content: the struct that the consumer sees, the sizes that it points to, and the owner of the memory.
template <class Managed>
struct capsule_content {
  Managed managed{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  PyObject* owner = nullptr;

  // Consumers call this on any thread, with or without the GIL.
  static void release(Managed* managed) {
    const std::unique_ptr<capsule_content> self(static_cast<capsule_content*>(managed->content));
    drop_reference(self->owner);
  }
};

template <class Managed>
constexpr const char* kName = "dltensor";
template <>
constexpr const char* kName<dlpack_managed_versioned> = "dltensor_versioned";

// A consumer that has taken the content renames the capsule.
template <class Managed>
void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kName<Managed>) == 0) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kName<Managed>));
  managed->deleter(managed);
}

template <class Managed>
nb::object capsule_of(std::unique_ptr<capsule_content<Managed>> content, const dlpack_tensor& tensor,
                      nb::object owner) {
  Managed& managed = content->managed;
  managed.tensor = tensor;
  managed.tensor.shape = content->shape.data();
  managed.tensor.strides = content->strides.data();
  managed.content = content.get();
  managed.deleter = &capsule_content<Managed>::release;
  PyObject* const capsule = PyCapsule_New(&managed, kName<Managed>, &drop_capsule<Managed>);
  if (capsule == nullptr) throw_python_error();
  content->owner = owner.release().ptr();
  content.release();  // the capsule's now
  return nb::steal(capsule);
}

template <class Managed>
nb::object export_as(const dlpack_tensor& tensor, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                     nb::object owner, std::uint64_t flags) {
  auto content = std::make_unique<capsule_content<Managed>>();
  content->shape = std::move(shape);
  content->strides = std::move(strides);
  if constexpr (std::is_same_v<Managed, dlpack_managed_versioned>) {
    content->managed.major = kDlpackMajor;
    content->managed.minor = kDlpackMinor;
    content->managed.flags = flags;
  }
  return capsule_of<Managed>(std::move(content), tensor, std::move(owner));
}

// `strides` in bytes. The owner is kept until the consumer is done.
nb::object capsule(nb::object owner, std::uintptr_t address, nb::handle type, nb::tuple shape, nb::tuple strides,
                   std::pair<int, int> device, std::uint64_t flags, bool versioned) {
  const dtype items = dtype_of(type);
  const std::optional<dlpack_type> found = dlpack_type_of(items);
  if (!found) raise(error(errc::unsupported, "DLPack has no data type for " + items.name()));
  if (strides.size() != shape.size()) raise(error(errc::invalid_argument, "strides must have the length of shape"));
  std::vector<std::int64_t> sizes, steps;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    sizes.push_back(nb::cast<std::int64_t>(shape[d]));
    const auto step = nb::cast<std::int64_t>(strides[d]);
    if (step % items.item_bytes() != 0) {
      raise(error(errc::unsupported,
                  "DLPack's strides are in elements, " + std::to_string(step) + " bytes are not a multiple"));
    }
    steps.push_back(step / items.item_bytes());
  }
  dlpack_tensor tensor{};
  tensor.data = reinterpret_cast<void*>(address);
  tensor.device = {device.first, device.second};
  tensor.rank = static_cast<std::int32_t>(sizes.size());
  tensor.type = *found;
  if (versioned) {
    return export_as<dlpack_managed_versioned>(tensor, std::move(sizes), std::move(steps), std::move(owner), flags);
  }
  return export_as<dlpack_managed>(tensor, std::move(sizes), std::move(steps), std::move(owner), flags);
}

}  // namespace

void bind_dlpack(nb::module_& m) {
  m.def("_dlpack_capsule", capsule, nb::arg("owner"), nb::arg("address"), nb::arg("dtype"), nb::arg("shape"),
        nb::arg("strides"), nb::arg("device"), nb::arg("flags"), nb::arg("versioned"),
        "A DLPack capsule over memory that `owner` keeps; `strides` in bytes.");
}

}  // namespace penstock::inline v0::python
