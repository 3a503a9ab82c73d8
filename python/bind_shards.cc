#include <penstock/array_source.h>
#include <penstock/joined.h>
#include <penstock/shards.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "driver/for_each_file.h"
#include "driver/found_shards.h"
#include "driver/join_as.h"
#include "driver/saved_arrays.h"
#include "driver/shard_checksum.h"
#include "driver/shard_endings.h"
#include "engine/array_state.h"
#include "engine/batch_job.h"
#include "engine/closed_parts.h"
#include "engine/context_state.h"
#include "format/zarr/zarr_data_type.h"
#include "list_argument.h"

namespace penstock::inline v0::python {
namespace {

// File names and keys are passed as bytes: they need not be UTF-8.

extents extents_from(nb::handle lengths) {
  extents out;
  check_rank(nb::len(lengths));
  for (const nb::handle each : lengths) out.push_back(nb::cast<std::uint64_t>(each));
  return out;
}

shard_options options_of(const context_handle& with, std::int64_t axis, nb::object raw) {
  shard_options out;
  out.context = with.context;
  out.axis = axis;
  if (raw.is_none()) return out;
  raw_options how;
  how.dtype = utf8_of(nb::object(raw["dtype"]));
  if (!nb::object(raw["shape"]).is_none()) how.shape = extents_from(raw["shape"]);
  if (!nb::object(raw["row_shape"]).is_none()) how.row_shape = extents_from(raw["row_shape"]);
  how.offset = nb::cast<std::uint64_t>(raw["offset"]);
  how.fortran_order = nb::cast<bool>(raw["fortran_order"]);
  how.rows = list_of<std::optional<std::uint64_t>>(raw["rows"]);
  out.raw = std::move(how);
  return out;
}

std::span<const std::byte> span_of(const nb::bytes& from) {
  return {static_cast<const std::byte*>(from.data()), from.size()};
}

struct found_shards_handle {
  found_shards found;
  std::shared_ptr<context> with;
};

/// \param open_folder  Returns the store of a folder, and the path within it.
found_shards_handle find_files(nb::handle files, const context_handle& with, bool allow_gaps, nb::handle format,
                               const nb::callable& open_folder) {
  shard_names what;
  if (nb::isinstance<nb::bytes>(files)) {
    what = split_shard_names(text_from(files));
  } else {
    std::vector<std::string> names;
    for (const nb::handle each : list_of<nb::bytes>(files)) names.push_back(text_from(each));
    what = unwrap(split_shard_names(std::span<const std::string>(names)));
  }
  const nb::tuple found = tuple_of(open_folder(nb::bytes(what.folder.data(), what.folder.size())), 2, "a place");
  place at{nb::cast<const store_handle&>(nb::object(found[0])).store, text_from(found[1])};
  const std::string only = format.is_none() ? std::string() : utf8_of(format);
  const shard_gaps gaps = allow_gaps ? shard_gaps::allow : shard_gaps::refuse;
  return {call_engine([&] { return find_in_folder(std::move(what), std::move(at), only, gaps); }), with.context};
}

nb::list keys_of(const found_shards_handle& self) {
  nb::list out;
  for (const std::string& each : self.found.keys) out.append(nb::bytes(each.data(), each.size()));
  return out;
}

nb::list names_for_open(const found_shards_handle& self, std::optional<std::size_t> most) {
  nb::list out;
  for (std::size_t i = 0; i < std::min(self.found.keys.size(), most.value_or(self.found.keys.size())); ++i) {
    const std::string name = self.found.name(i);
    out.append(nb::bytes(name.data(), name.size()));
  }
  return out;
}

nb::str format_of(const found_shards_handle& self) {
  return to_str(call_engine([&] { return shard_format(self.found, *self.with); }));
}

std::optional<std::uint64_t> number_or_none(nb::handle given) {
  return given.is_none() ? std::optional<std::uint64_t>() : nb::cast<std::uint64_t>(given);
}

nb::object tuple_or_none(const std::optional<extents>& lengths) {
  if (!lengths) return nb::none();
  nb::list out;
  for (const std::uint64_t each : *lengths) out.append(each);
  return out;
}

/// The options for raw files, in the form of `open_shards`.
nb::dict raw_items(const found_shards_handle& self, std::int64_t axis, nb::handle descr, nb::handle shape,
                   nb::handle row_shape, nb::handle offset, nb::handle fortran_order) {
  raw_description given;
  if (!descr.is_none()) given.dtype = utf8_of(descr);
  if (!shape.is_none()) given.shape = extents_from(shape);
  if (!row_shape.is_none()) given.row_shape = extents_from(row_shape);
  given.offset = number_or_none(offset);
  if (!fortran_order.is_none()) given.fortran_order = nb::cast<bool>(fortran_order);
  const raw_options made = call_engine([&] { return describe_raw_shards(self.found, axis, given, self.with); });
  nb::dict out;
  out["dtype"] = to_str(made.dtype);
  out["shape"] = tuple_or_none(made.shape);
  out["row_shape"] = tuple_or_none(made.row_shape);
  out["offset"] = made.offset;
  out["fortran_order"] = made.fortran_order;
  nb::list rows;
  for (const auto& each : made.rows) rows.append(each ? nb::object(nb::int_(*each)) : nb::none());
  out["rows"] = std::move(rows);
  return out;
}

std::optional<std::string> format_by_name(nb::bytes name) {
  std::string text = text_of(name);
  while (text.ends_with('/')) text.pop_back();
  const std::string_view found = format_of_ending(lower_ending(text));
  return found.empty() ? std::nullopt : std::optional<std::string>(found);
}

nb::list find(const store_handle& from, nb::bytes pattern, bool allow_gaps) {
  const std::string wanted = text_of(pattern);
  const auto found = call_engine(
      [&] { return find_shards(*from.store, wanted, allow_gaps ? shard_gaps::allow : shard_gaps::refuse); });
  nb::list out;
  for (const std::string& each : found) out.append(nb::bytes(each.data(), each.size()));
  return out;
}

array_handle open_joined(const store_handle& from, const context_handle& with, nb::list keys, std::int64_t axis,
                         nb::object raw) {
  std::vector<std::string> names;
  for (const nb::handle each : keys) names.push_back(text_from(each));
  const shard_options options = options_of(with, axis, raw);
  return array_handle(call_engine([&] { return open_shards(from.store, std::move(names), options); }));
}

array_handle open_raw(const store_handle& from, const context_handle& with, nb::bytes key, nb::object raw) {
  const shard_options options = options_of(with, 0, raw);
  return array_handle(call_engine([&, name = text_of(key)] { return open_contiguous(from.store, name, options); }));
}

array_handle join_many(const context_handle& with, const nb::list& arrays, std::size_t axis) {
  std::vector<array> parts;
  for (const nb::handle each : arrays) parts.push_back(nb::cast<const array_handle&>(each).array());
  return array_handle(call_engine([&] { return join(parts, axis, with.context); }));
}

// Calls `read(origin, shape)`, which returns the bytes of the box. The GIL is taken here.
result<> call_reader(PyObject* read, const box& which, std::span<std::byte> out) {
  if (!may_enter_python()) return error(errc::cancelled, "the program ends");
  const with_gil gil;
  try {
    const nb::object made = nb::handle(read)(to_tuple(which.origin), to_tuple(which.size));
    Py_buffer view{};
    if (PyObject_GetBuffer(made.ptr(), &view, PyBUF_SIMPLE) != 0) return take_python_error();
    const auto size = static_cast<std::size_t>(view.len);
    if (size == out.size()) {
      const nb::gil_scoped_release released;
      std::memcpy(out.data(), view.buf, size);
    }
    PyBuffer_Release(&view);
    if (size == out.size()) return {};
    return error(errc::internal,
                 "a source's adapter returned " + std::to_string(size) + " bytes of " + std::to_string(out.size()));
  } catch (nb::python_error& failed) {
    failed.restore();
    return take_python_error();
  } catch (const std::exception& failed) {
    return error(errc::io_error, failed.what());
  }
}

// Calls `open(first, end)`, which returns the join of the parts [first, end). The GIL is taken here.
result<array> call_opener(PyObject* open, std::size_t first, std::size_t end) {
  if (!may_enter_python()) return error(errc::cancelled, "the program ends");
  const with_gil gil;
  try {
    return nb::cast<const array_handle&>(nb::handle(open)(first, end)).array();
  } catch (nb::python_error& failed) {
    failed.restore();
    return take_python_error();
  } catch (const std::exception& failed) {
    return error(errc::io_error, failed.what());
  }
}

array_handle open_of_sources(const context_handle& with, const nb::list& given, nb::bytes descr, std::size_t axis,
                             nb::object open) {
  const json described = unwrap(json::parse(text_of(descr)));
  const dtype type = unwrap(parse_v2_dtype(described)).type;
  std::vector<array_source> parts;
  for (const nb::handle each : given) {
    const nb::tuple one = tuple_of(each, 4, "a source");
    const std::shared_ptr<PyObject> read(nb::object(one[3]).release().ptr(), drop_reference);
    parts.push_back(
        {text_from(one[0]), type, extents_from(one[1]), extents_from(one[2]),
         [read](const box& which, std::span<std::byte> out) { return call_reader(read.get(), which, out); }});
  }
  std::vector<std::uint64_t> ends;
  for (const array_source& each : parts)
    if (axis < each.shape.size()) ends.push_back(each.shape[axis] + (ends.empty() ? 0 : ends.back()));
  const array made = call_engine([&] { return open_sources(std::move(parts), axis, with.context); });
  if (open.is_none()) return array_handle(made);
  const std::shared_ptr<PyObject> opens(open.release().ptr(), drop_reference);
  const auto opener = [opens](std::size_t first, std::size_t end) { return call_opener(opens.get(), first, end); };
  return array_handle(open_later(made, std::make_shared<const closed_parts>(axis, std::move(ends), opener)));
}

array_handle open_parts(const array_handle& of) {
  return array_handle(call_engine([&]() -> result<array> {
    const auto closed = of.array().state().closed;
    if (!closed) return error(errc::invalid_argument, "the parts of the array are open");
    return closed->all();
  }));
}

nb::list files(const array_handle& of) {
  nb::list out;
  for (const shard_file& each : shard_files(of.array())) {
    nb::object sum = nb::none();
    if (each.crc32c) sum = nb::int_(*each.crc32c);
    out.append(nb::make_tuple(nb::bytes(each.key.data(), each.key.size()), each.length, each.offset, sum));
  }
  return out;
}

nb::bytes save(const array_handle& of, nb::bytes root, bool as_json, nb::handle checksums) {
  const auto made =
      unwrap(save_manifest(of.array(), text_of(root), as_json ? manifest_form::json : manifest_form::binary,
                           list_of<std::uint32_t>(checksums)));
  return nb::bytes(made.data(), made.size());
}

nb::list stamps(const context_handle& with, const nb::list& paths) {
  std::vector<std::string> names;
  for (const nb::handle each : paths) names.push_back(text_from(each));
  nb::list out;
  for (const auto& each : call_engine([&] { return query_files(names, *with.context); }))
    out.append(each ? nb::object(nb::make_tuple(each->stamp.size_bytes, each->stamp.changed_ns)) : nb::none());
  return out;
}

// Threads of the context call `work(0)` .. `work(count - 1)`, which must not raise.
void side_by_side(const context_handle& with, const nb::object& work, std::size_t count, unsigned threads) {
  if (count == 0) return;
  constexpr bool kWaits = true;
  const auto call = [&](std::size_t which, unsigned) -> result<> {
    if (!may_enter_python()) return error(errc::cancelled, "the program ends");
    const with_gil gil;
    try {
      work(which);
      return {};
    } catch (nb::python_error& failed) {
      failed.restore();
      return take_python_error();
    }
  };
  constexpr std::chrono::milliseconds kPoll{20};
  const auto job = std::make_shared<batch_job>(count, call, kWaits);
  const auto look_for_signals = [&] {
    if (!may_go_on()) job->cancel();
  };
  const auto workers = static_cast<unsigned>(std::clamp<std::size_t>(threads, 1, std::min<std::size_t>(count, 1024)));
  call_engine([&] {
    with.context->state().executor().run(job, workers, look_for_signals, kPoll);
    return job->outcome();
  });
}

std::uint32_t file_checksum(nb::bytes path, bool sync) {
  return call_engine([name = text_of(path), sync] { return checksum_of_file(name, 0, sync); });
}

std::uint32_t shard_checksum(nb::bytes path) {
  return call_engine([name = text_of(path)] { return checksum_of_shard(name); });
}

nb::bytes document_of_shard(nb::bytes path) {
  const std::string found = metadata_of_shard(text_of(path));
  return nb::bytes(found.data(), found.size());
}

}  // namespace

void bind_shards(nb::module_& m) {
  nb::class_<found_shards_handle>(m, "FoundShards", "Files that were found: found_shards of find_shards.h.")
      .def_prop_ro("store", [](const found_shards_handle& self) { return store_handle{self.found.from}; })
      .def_prop_ro("keys", &keys_of)
      .def("names", &names_for_open, nb::arg("most").none() = nb::none(), "Names for `open`; only the first `most`.")
      .def("format", &format_of, "The format of the first file: npy, raw, hdf5, parquet, or other.")
      .def("raw_items", &raw_items, nb::arg("axis"), nb::arg("descr").none(), nb::arg("shape").none(),
           nb::arg("row_shape").none(), nb::arg("offset").none(), nb::arg("fortran_order").none(),
           "The options of raw files for `open_shards`: those given, and for all others those of JSON files.");
  m.def(
      "find_shard_files", &find_files, nb::arg("files"), nb::arg("context"), nb::arg("allow_gaps"),
      nb::arg("format").none(), nb::arg("open_folder"),
      "Find the files of a pattern or a folder (bytes) or a list; `open_folder(folder)` returns its store and the path "
      "within it.");
  m.def(
      "shard_format_by_name", &format_by_name, nb::arg("name"),
      "The format that has the suffix of a name: npy, raw, hdf5, npz, zarr, tiff, parquet, arrow; None: it has none.");
  m.def(
      "shard_endings",
      [](nb::bytes format) {
        const std::string wanted = text_of(format);
        std::vector<std::string> out;
        for (const shard_ending& each : shard_endings())
          if (wanted.empty() || each.format == wanted) out.push_back('.' + std::string(each.ending));
        return out;
      },
      nb::arg("format"), "The endings of names of a format's files, each with the dot; of all formats for b\"\".");
  m.def(
      "is_shard_pattern", [](nb::bytes name) { return is_shard_pattern(text_of(name)); }, nb::arg("name"),
      "Whether a name is a shell pattern.");
  m.def("find_shards", &find, nb::arg("store"), nb::arg("pattern"), nb::arg("allow_gaps"),
        "Keys that match a shell pattern, in the order of the numbers in them.");
  m.def("open_shards", &open_joined, nb::arg("store"), nb::arg("context"), nb::arg("keys"), nb::arg("axis"),
        nb::arg("raw").none(), "Open .npy or raw files as one array.");
  m.def("open_contiguous", &open_raw, nb::arg("store"), nb::arg("context"), nb::arg("key"), nb::arg("raw").none(),
        "Open one .npy or raw file.");
  m.def("join", &join_many, nb::arg("context"), nb::arg("arrays"), nb::arg("axis"),
        "Open arrays, one after the other along an axis, as one.");
  m.def("open_sources", &open_of_sources, nb::arg("context"), nb::arg("sources"), nb::arg("descr"), nb::arg("axis"),
        nb::arg("open").none() = nb::none(),
        "Sources (name, shape, chunks, read) of one dtype as one array; read(origin, shape) returns a box's bytes. "
        "`open(first, end)` opens and joins these sources for reads; None: reads take the boxes.");
  m.def("open_parts", &open_parts, nb::arg("array"), "The join of all parts, of an array of sources with `open`.");
  m.def("shard_files", &files, nb::arg("array"), "For each file (key, length, offset, crc32c or None).");
  m.def(
      "shard_axis", [](const array_handle& of) { return shard_axis(of.array()); }, nb::arg("array"),
      "The dimension along which the files follow each other.");
  m.def(
      "shard_items",
      [](const array_handle& of) {
        const raw_options items = shard_items(of.array());
        return nb::make_tuple(nb::str(items.dtype.data(), items.dtype.size()), items.fortran_order);
      },
      nb::arg("array"), "(NumPy's descr as text, whether in Fortran order) of the items of an array's files.");
  m.def(
      "shards_changed",
      [](const array_handle& of) {
        return call_engine([&, a = of.array()] { return result<bool>(shards_changed(a)); });
      },
      nb::arg("array"), "Whether one of an array's files is gone or another than it was.");
  m.def("file_stamps", &stamps, nb::arg("context"), nb::arg("paths"),
        "(size, time of change) of each file of this machine, None if it does not exist: queried in parallel.");
  m.def("side_by_side", &side_by_side, nb::arg("context"), nb::arg("work"), nb::arg("count"), nb::arg("threads"),
        "Call `work` with each number below `count`, on up to so many threads of the context; it must not raise.");
  m.def("save_manifest", &save, nb::arg("array"), nb::arg("root"), nb::arg("as_json"), nb::arg("checksums"),
        "The known facts about an array's files.");
  m.def(
      "manifest_root",
      [](nb::bytes manifest) {
        const std::string root = unwrap(manifest_root(span_of(manifest)));
        return nb::bytes(root.data(), root.size());
      },
      nb::arg("manifest"), "Where the files of a manifest are.");
  m.def(
      "open_manifest",
      [](const store_handle& from, const context_handle& with, nb::bytes manifest, bool fill_missing, nb::bytes below) {
        const auto missing = fill_missing ? missing_shards::fill : missing_shards::refuse;
        const std::string folder = text_of(below);
        return array_handle(
            call_engine([&] { return open_manifest(from.store, span_of(manifest), with.context, missing, folder); }));
      },
      nb::arg("store"), nb::arg("context"), nb::arg("manifest"), nb::arg("fill_missing") = false,
      nb::arg("below") = nb::bytes(""), "Open the files of a manifest; none is read.");
  m.def("checksum_of_file", &file_checksum, nb::arg("path"), nb::arg("sync"),
        "The CRC-32C of a file's bytes. `sync`: the file is moved to its device, too.");
  m.def("checksum_of_shard", &shard_checksum, nb::arg("path"),
        "The CRC-32C that manifests have of a shard: of a file, or of a folder's names and bytes.");
  m.def("metadata_of_shard", &document_of_shard, nb::arg("path"),
        "The file that changes whenever the shard is replaced: itself, or the metadata of a Zarr array.");
}

}  // namespace penstock::inline v0::python
