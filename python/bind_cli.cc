#include <penstock/copy.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/nearest_word.h"
#include "base/printable.h"
#include "bind.h"
#include "cli/run.h"

namespace penstock::inline v0::python {
namespace {

/// Calls `work`, which may throw a Python exception, with the GIL held.
template <class Work>
auto in_python(Work&& work) -> decltype(work()) {
  if (!may_enter_python()) return error(errc::cancelled, "the interpreter is ending");
  const with_gil gil;
  try {
    return work();
  } catch (nb::python_error& failed) {
    failed.restore();
    return take_python_error();
  } catch (const std::exception& failed) {
    return error(errc::internal, failed.what());
  }
}

/// Lone surrogates of Python's text, which have no UTF-8, are passed, too.
constexpr const char* kAny = "surrogatepass";
std::string any_text(nb::handle text) { return text_from(text.attr("encode")("utf-8", kAny)); }

std::string encoded_text(nb::handle text) {
  const nb::object encoded = text.attr("encode")("utf-8", "surrogateescape");
  const nb::bytes bytes = nb::borrow<nb::bytes>(encoded);
  return std::string(bytes.c_str(), bytes.size());
}

nb::object text_of_rule(const std::optional<chunk_lengths>& rule) {
  if (!rule) return nb::none();
  return to_str(rule->to_string());
}

/// The options in the form of `_core.copy`. `options` outlives the copy.
nb::dict as_dict(const copy_options& options) {
  nb::dict out;
  out["chunks"] = text_of_rule(options.chunk_rule);
  out["shards"] = text_of_rule(options.shard_rule);
  out["auto_shards"] = options.auto_shards;
  out["no_shards"] = options.no_shards;
  out["codecs"] = options.codecs_json.empty() ? nb::object(nb::none()) : nb::object(to_str(options.codecs_json));
  out["zarr_format"] = options.zarr_format == 0 ? nb::object(nb::none()) : nb::object(nb::int_(options.zarr_format));
  out["threads"] = options.threads == 0 ? nb::object(nb::none()) : nb::object(nb::int_(options.threads));
  out["overwrite"] = options.overwrite;
  out["resume"] = options.resume;
  out["durable"] = options.durable;
  out["verify"] = options.verify;
  out["decode_once"] = options.decode_once;
  out["check_only"] = options.check_only;
  out["memory"] = options.memory_bytes == 0 ? nb::object(nb::none()) : nb::object(nb::int_(options.memory_bytes));
  out["scratch"] = options.scratch.empty() ? nb::object(nb::none())
                                           : nb::object(nb::bytes(options.scratch.data(), options.scratch.size()));
  out["progress"] = nb::cpp_function([&options](nb::handle path, std::uint64_t done, std::uint64_t total) {
    return !options.progress || options.progress({encoded_text(path), done, total});
  });
  return out;
}

cli::opened as_opened(nb::object found);

/// A group of a format that Python opens.
class python_group final : public cli::opened_group {
 public:
  explicit python_group(nb::object of)
      : group_(of.release().ptr()),
        uri_(encoded_text(nb::handle(group_).attr("uri"))),
        format_(encoded_text(nb::handle(group_).attr("format"))),
        attributes_(encoded_text(nb::handle(group_).attr("_attributes_json"))) {}
  ~python_group() override { drop_reference(group_); }
  python_group(const python_group&) = delete;

  std::string uri() const override { return uri_; }
  std::string format() const override { return format_; }
  std::string attributes_json() const override { return attributes_; }

  result<std::vector<std::string>> keys() const override {
    return in_python([&]() -> result<std::vector<std::string>> {
      std::vector<std::string> names;
      for (const nb::handle name : nb::borrow<nb::object>(nb::handle(group_).attr("keys")()))
        names.push_back(encoded_text(name));
      return names;
    });
  }

  result<cli::opened> open(const std::string& name) const override {
    return in_python([&]() -> result<cli::opened> { return as_opened(nb::handle(group_)[to_str(name)]); });
  }

  result<copy_report> copy_to(const std::string& to, const copy_options& options) const override {
    return in_python([&]() -> result<copy_report> {
      const nb::object made = nb::module_::import_("penstock.api.copy")
                                  .attr("copy_members")(nb::handle(group_), to_str(to), as_dict(options));
      const auto count = [&](const char* name) -> std::uint64_t {
        const nb::object found = made.attr("get")(name, 0);
        return nb::cast<std::uint64_t>(found);
      };
      copy_report out;
      out.groups = count("groups");
      out.arrays = count("arrays");
      out.objects_copied = count("objects_copied");
      out.objects_written = count("objects_written");
      out.objects_skipped = count("objects_skipped");
      out.bytes = count("bytes");
      for (const nb::handle each : nb::cast<nb::list>(made["steps"])) {
        const auto step = nb::cast<nb::tuple>(each);
        out.steps.push_back({encoded_text(step[0]), encoded_text(step[1]), nb::cast<unsigned>(step[2]),
                             nb::cast<std::uint64_t>(step[3]), nb::cast<std::uint64_t>(step[4])});
      }
      return out;
    });
  }

 private:
  PyObject* group_;
  std::string uri_, format_, attributes_;
};

cli::opened as_opened(nb::object found) {
  if (nb::isinstance<array_handle>(found)) return cli::opened(nb::cast<const array_handle&>(found).array());
  return cli::opened(std::make_shared<const python_group>(std::move(found)));
}

int run_cli(nb::list arguments, nb::object open, bool with_bench, nb::object name_system) {
  std::vector<std::string> texts;
  for (const nb::handle argument : arguments) {
    const nb::bytes bytes = nb::cast<nb::bytes>(argument);
    texts.emplace_back(bytes.c_str(), bytes.size());
  }
  std::vector<const char*> argv;
  for (const std::string& text : texts) argv.push_back(text.c_str());
  argv.push_back(nullptr);
  cli::opener others;
  if (!open.is_none()) {
    others = [function = open.ptr()](const std::string& uri, unsigned threads, const std::string& storage) {
      return in_python([&]() -> result<cli::opened> {
        return as_opened(nb::handle(function)(to_str(uri), threads, to_str(storage)));
      });
    };
  }
  cli::system_namer namer;
  if (!name_system.is_none()) {
    namer = [function = name_system.ptr()](const array& image) {
      return in_python(
          [&]() -> result<std::string> { return encoded_text(nb::handle(function)(nb::cast(array_handle(image)))); });
    };
  }
  const without_gil released;
  return cli::run(static_cast<int>(texts.size()), argv.data(), others, with_bench, namer);
}

}  // namespace

void bind_cli(nb::module_& m) {
  m.def(
      "storage_flags",
      [] {
        nb::list out;
        for (const cli::storage_flag& each : cli::known_storage_flags())
          out.append(nb::make_tuple(to_str(each.name()), to_str(std::string(each.option)),
                                    each.takes == cli::storage_flag::kind::on, to_str(each.what)));
        return out;
      },
      "The flags of the program for remote storage: (flag, storage option, whether it takes no value, help text).");
  m.def(
      "nearest_word",
      [](nb::handle typed, nb::list among) {
        std::vector<std::string> names;
        for (const nb::handle each : among) names.push_back(any_text(each));
        return to_str(nearest_word(any_text(typed), names), kAny);
      },
      nb::arg("typed"), nb::arg("among"), "The word of `among` that is closest to `typed`, or \"\" if none is close.");
  m.def(
      "printable",
      [](nb::handle text, bool lines) {
        const std::string given = any_text(text);
        return to_str(lines ? printable_lines(given) : printable(given), kAny);
      },
      nb::arg("text"), nb::arg("lines") = false,
      "The text for one line of a terminal, or for several: control characters, which a terminal would execute, are "
      "escaped. Line feeds and tabs of several lines are unchanged.");
  m.def(
      "bytes_text", [](double count) { return to_str(bytes_text(count)); }, nb::arg("count"),
      "A number of bytes in decimal units: `1.61 GB`, `512 bytes`.");
  m.def("cli_main", run_cli, nb::arg("argv"), nb::arg("open") = nb::none(), nb::arg("with_bench") = true,
        nb::arg("name_system") = nb::none(),
        "Run the command line program with these arguments (bytes; the first is its name); returns its exit status. "
        "`open(uri, threads, storage)` opens formats that the C++ library does not open; `with_bench`: there is a verb "
        "`bench`; "
        "`name_system(image)` names the coordinate system of a TIFF's image.");
}

}  // namespace penstock::inline v0::python
