#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "bind.h"
#include "cuda/decode/nvcomp.h"
#include "cuda/decode/step_settings.h"
#include "cuda/resident_wave.h"
#include "list_argument.h"

namespace penstock::inline v0::python {
namespace {

nb::bytes to_bytes(const std::vector<std::byte>& from) { return nb::bytes(from.data(), from.size()); }

/// Decoding for `penstock.testing` and the GPU benchmark, without an array and a store.
class wave_handle {
 public:
  wave_handle(const std::string& codecs, const nb::list& encoded, nb::handle sizes, int device, bool nvcomp) {
    const auto decoded_bytes = list_of<std::uint64_t>(sizes);
    if (encoded.size() == 0 || encoded.size() != decoded_bytes.size())
      raise({errc::invalid_argument, "a wave has one decoded size for each of its chunks, and at least one chunk"});
    std::vector<cuda::resident_wave::chunk> chunks;
    for (std::size_t i = 0; i < decoded_bytes.size(); ++i) {
      const auto bytes = nb::cast<nb::bytes>(encoded[i]);
      chunks.push_back({{reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()}, decoded_bytes[i]});
    }
    wave_ = call_engine([&]() -> result<std::unique_ptr<cuda::resident_wave>> {
      const device::nvcomp* library = nullptr;
      if (nvcomp) {
        PENSTOCK_ASSIGN(library, device::nvcomp::load());
      }
      PENSTOCK_ASSIGN(const json given, json::parse(codecs));
      PENSTOCK_ASSIGN(const auto steps, device::steps_of_codecs(given, chunks[0].encoded, chunks[0].decoded_bytes));
      return cuda::resident_wave::make(device, steps, chunks, library);
    });
  }

  std::vector<std::string> kernels() const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < wave_->launches(); ++i) out.emplace_back(wave_->kernel(i));
    return out;
  }
  void run(std::size_t launch) {
    if (launch >= wave_->launches()) raise({errc::out_of_range, "the wave has fewer launches"});
    call_engine([&]() -> result<bool> {
      PENSTOCK_TRY(wave_->run(launch));
      return true;
    });
  }
  std::vector<float> decode() {
    return call_engine([&] { return wave_->decode(); });
  }
  nb::dict workspace() const {
    nb::dict out;
    for (const auto& each : call_engine([&] { return wave_->workspace(); }))
      out[nb::str(each.name.data(), each.name.size())] = to_bytes(each.bytes);
    return out;
  }
  nb::bytes output(std::size_t chunk) const {
    if (chunk >= statuses().size()) raise({errc::out_of_range, "the wave has fewer chunks"});
    return to_bytes(call_engine([&] { return wave_->output(chunk); }));
  }
  std::vector<std::uint32_t> statuses() const {
    return call_engine([&] { return wave_->statuses(); });
  }

 private:
  std::unique_ptr<cuda::resident_wave> wave_;
};

std::string describe_status(std::uint32_t status) { return device::status_error(status, "chunk").to_string(); }

}  // namespace

void bind_resident_wave(nb::module_& m) {
  locked_class<wave_handle>(m, "_ResidentWave",
                            "Chunks on a device, or with device -1 on the host, that its kernels decode.")
      .def(nb::init<const std::string&, const nb::list&, nb::handle, int, bool>(), nb::arg("codecs"),
           nb::arg("encoded"), nb::arg("decoded_bytes"), nb::arg("device"), nb::arg("nvcomp"))
      .def_prop_ro("kernels", &wave_handle::kernels, "The symbols of the kernels, in the order of their launches.")
      .def("run", &wave_handle::run, nb::arg("launch"), "Run one launch and wait.")
      .def("decode", &wave_handle::decode, "Run all launches and wait: milliseconds of each.")
      .def("workspace", &wave_handle::workspace, "The memory in which kernels pass data to other kernels, by name.")
      .def("output", &wave_handle::output, nb::arg("chunk"), "The decoded bytes of a chunk.")
      .def("statuses", &wave_handle::statuses, "0, or why decoding failed, of each chunk.");
  m.def("_describe_status", describe_status, nb::arg("status"), "The error of a status that is not 0.");
}

}  // namespace penstock::inline v0::python
