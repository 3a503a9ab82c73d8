#include "bind.h"
#include "bind_nodes.h"
#include "bind_virtual.h"

#include <penstock/config.h>

/// `penstock._core`: the classes that need C++. The package `penstock` builds its public interface on them.
NB_MODULE(_core, m) {
  using namespace penstock::python;
  m.attr("__version__") = PENSTOCK_VERSION;
  // Contexts that live until the interpreter ends are intended.
  nb::set_leak_warnings(false);
  drop_left_references();  // prepares it for forks
  bind_errors(m);
  bind_context(m);
  bind_stores(m);
  bind_output(m);
  bind_dlpack(m);
  bind_device(m);
  bind_dtype(m);
  bind_array(m);
  bind_georeference(m);
  bind_tiff(m);
  bind_group(m);
  bind_open(m);
  bind_places(m);
  bind_found(m);
  bind_described(m);
  bind_references(m);
  bind_pipeline(m);
  bind_create(m);
  bind_tiff_writer(m);
  bind_copy(m);
  bind_shards(m);
  bind_shard_writer(m);
  bind_stream(m);
  bind_virtual(m);
  bind_window(m);
  bind_loader(m);
  bind_levels(m);
  bind_appender(m);
  bind_unpack(m);
  bind_cli(m);
  bind_codec_testing(m);
  bind_resident_wave(m);
  m.def("_is_engine_thread", is_engine_thread, "Whether this is a thread of the engine, which calls Python code.");
  m.def("_end", end_interpreter, "Stop the reads of threads that the end of the program would catch within C++.");
}
