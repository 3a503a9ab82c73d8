#include <penstock/array.h>
#include <penstock/extend/scheme.h>
#include <penstock/open.h>
#include <penstock/place.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/thrown.h"
#include "driver/registry.h"
#include "driver/remote_place.h"
#include "driver/schemes.h"
#include "driver/zarr_nodes.h"
#include "engine/context_state.h"
#include "store/file_status.h"
#include "store/file_store.h"
#include "store/http_url.h"
#include "store/memory_store.h"
#include "store/read_only_store.h"
#include "store/zip_store.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kArchiveSuffix = ".zip", kArraysSuffix = ".npz";

bool file_is_archive(const std::string& path) {
  const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::byte begin[4];
  return file && ::pread(file.get(), begin, sizeof(begin), 0) == sizeof(begin) && begins_as_archive(begin);
}

// The length of the part of `path` that names a file, rather than folders or missing names. 0: none.
std::size_t file_on_the_way(const std::string& path) {
  for (std::size_t size = path.size(); size != 0 && size != std::string::npos; size = path.rfind('/', size - 1)) {
    struct ::stat status{};
    if (::stat(path.substr(0, size).c_str(), &status) == 0) return S_ISREG(status.st_mode) ? size : 0;
    if (errno != ENOENT && errno != ENOTDIR) return 0;
  }
  return 0;
}

/// The open files of the store of one file, which also reads files next to it. (Sources that the file names have stores
/// of their own.)
constexpr unsigned kFilesOfOne = 8;

std::shared_ptr<store> make_file_store(std::string root, write_sync sync, unsigned max_open_files) {
  file_store_options options;
  options.sync = sync;
  options.max_open_files = max_open_files;
  return std::make_shared<file_store>(std::move(root), options);
}

place in_archive(const std::string& path, std::size_t size, const place_options& options) {
  return {open_zip_store(path.substr(0, size), options.context), path.substr(std::min(size + 1, path.size()))};
}

// The first component of the path with an archive's ending; the whole path if none has.
std::size_t archive_by_name(const std::string& path) {
  for (std::size_t at = path.find(kArchiveSuffix); at != std::string::npos; at = path.find(kArchiveSuffix, at + 1)) {
    const std::size_t end = at + kArchiveSuffix.size();
    struct ::stat status{};
    const bool folder = ::stat(path.substr(0, end).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    if (!folder && (end == path.size() || path[end] == '/')) return end;
  }
  return path.size();
}

bool take_scheme(std::string_view& uri, std::string_view scheme) {
  if (uri.substr(0, scheme.size()) != scheme) return false;
  uri.remove_prefix(scheme.size());
  if (uri.substr(0, 2) != "//") return true;
  uri.remove_prefix(2);
  constexpr std::string_view kLocalhost = "localhost/";
  if (uri.substr(0, kLocalhost.size()) == kLocalhost) uri.remove_prefix(kLocalhost.size() - 1);
  return true;
}

/// Whether a name has the scheme `file:`, which is removed from it.
/// \error invalid_argument  It names a file of another machine: `file://server/x` is not the path `server/x`.
result<bool> take_file_scheme(std::string_view& uri) {
  const std::string_view whole = uri;
  if (!take_scheme(uri, "file:")) return false;
  if (!whole.starts_with("file://") || uri.empty() || uri.front() == '/') return true;
  return error(errc::invalid_argument,
               fmt::format("'{}' names a file of the host '{}', which cannot be opened: use 'file:///' and an absolute "
                           "path, or a path without 'file://'",
                           whole, uri.substr(0, uri.find('/'))));
}

// Whether a path exists, or the archive that it continues into. The URI of an open array has the characters of its
// path, not their percent-encoding.
bool is_there(const std::string& path) {
  struct ::stat status{};
  return ::stat(path.c_str(), &status) == 0 || file_on_the_way(path) != 0;
}

// An absolute path without components to remove, as most are: the standard library would split and join it again.
bool is_normal(std::string_view path) noexcept {
  return path.front() == '/' && path.find("//") == std::string_view::npos && path.find("/.") == std::string_view::npos;
}

// The absolute path without "." and "..". As for the system, ".." after a link to a folder is above the link's target.
std::string path_without_dots(const std::string& path, std::error_code& failed) {
  namespace fs = std::filesystem;
  fs::path out;
  for (const fs::path& each : fs::absolute(path, failed)) {
    if (each == ".") continue;
    if (each != "..") {
      out /= each;
      continue;
    }
    std::error_code absent;
    const fs::path real = fs::canonical(out, absent);
    out = (absent ? out.lexically_normal() : real).parent_path();
  }
  return out.lexically_normal().string();
}

write_sync sync_of(const place_options& options) {
  return options.context ? options.context->state().options().sync : write_sync::objects;
}

}  // namespace

result<std::string> local_path_of(std::string_view name) {
  PENSTOCK_ASSIGN(const bool is_uri, take_file_scheme(name));
  if (!is_uri) return std::string(name);
  std::string path(name);
  return is_there(path) ? path : percent_decode(path);
}

bool begins_as_archive(std::span<const std::byte> begin) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), std::min<std::size_t>(begin.size(), 4));
  return text == "PK\x03\x04" || text == "PK\x05\x06";
}

result<> check_new_name(std::string_view uri, const context* with) {
  struct other_file {
    std::string_view ending, writer;
  };
  // No driver writes files with these endings, and users expect a file.
  static constexpr other_file kOthers[] = {
      {".npz", "numpy.savez"},      {".raw", "penstock.save_shards"},      {".bin", "penstock.save_shards"},
      {".csv", "numpy.savetxt"},    {".png", "penstock read SRC -o FILE"}, {".jpg", "another library"},
      {".jp2", "another library"},  {".jpeg", "another library"},          {".grib", "another library"},
      {".grb", "another library"},  {".grib2", "another library"},         {".grb2", "another library"},
      {".fits", "astropy.io.fits"}, {".mat", "scipy.io.savemat"},
  };
  while (uri.ends_with('/')) uri.remove_suffix(1);
  const auto refuse = [&](std::string_view kind, std::string_view writer) {
    return error(errc::invalid_argument,
                 fmt::format("'{}' is the name of a {} file, and this would write a Zarr folder: use {}a name that "
                             "ends with '.zarr' or '.zip'",
                             uri, kind, writer.empty() ? std::string() : fmt::format("{}, or ", writer)));
  };
  const auto named = with != nullptr ? driver_by_name(*with, uri) : driver_by_name(uri);
  if (named != nullptr) return refuse(named->name(), named->written_by());
  const std::string_view name = uri.substr(uri.rfind('/') + 1);
  std::string end(name.substr(std::min(name.size(), name.rfind('.'))));
  for (char& c : end)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const other_file& each : kOthers)
    if (end == each.ending) return refuse(end, each.writer);
  return {};
}

namespace {

class no_keys final : public key_sink {
 public:
  bool key(std::string_view, std::uint64_t) override { return false; }
};

/// A location on this machine.
struct local_place {
  place at;          ///< the file's name in its folder, or the path inside the archive
  std::string file;  ///< absolute path of that file; empty: `at` is a folder or in an archive
  std::string rest;  ///< the rest of the path that the caller gave, after the file
};

/// \param sniffs  Whether a file is read to see if it is an archive; otherwise its name decides.
/// \param is_file  Whether the path is assumed to be a file, without a check.
result<local_place> find_local_place(std::string_view uri, const place_options& options, bool sniffs,
                                     bool is_file = false) {
  std::string_view given = uri;
  const bool archive = take_scheme(given, "zip:");
  bool is_uri = archive;
  if (!archive) {
    PENSTOCK_ASSIGN(is_uri, take_file_scheme(given));
  }
  if (given.empty()) return error(errc::invalid_argument, "the path is empty");
  std::error_code failed;
  std::string path(given);
  if (is_uri && !is_there(path)) path = percent_decode(path);
  if (path.find('\0') != std::string::npos) {  // the system would use the name before it
    std::replace(path.begin(), path.end(), '\0', '?');
    return error(errc::invalid_argument, fmt::format("a path must not contain a NUL: '{}'", path));
  }
  if (!is_normal(path)) path = path_without_dots(path, failed);
  if (failed) return error(errc::io_error, fmt::format("'{}': {}", given, failed.message()));
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t file = options.is_file || is_file ? path.size() : file_on_the_way(path);
  if (archive) return local_place{in_archive(path, file != 0 ? file : archive_by_name(path), options), {}, {}};
  // The name also decides: a new archive that a power cut interrupted has no bytes, or lacks its first ones.
  const std::string_view name = std::string_view(path).substr(0, file);
  if (file != 0 && !options.is_file &&
      (name.ends_with(kArchiveSuffix) || (sniffs && file_is_archive(std::string(name)))))
    return local_place{in_archive(path, file, options), {}, {}};
  struct ::stat status{};
  if (!options.is_file && path.ends_with(kArchiveSuffix) && ::stat(path.c_str(), &status) != 0)
    return local_place{in_archive(path, path.size(), options), {}, {}};
  if (file != 0) {  // a format whose nodes are single files
    const std::size_t slash = path.rfind('/', file - 1);
    place at{make_file_store(path.substr(0, std::max<std::size_t>(slash, 1)), sync_of(options), kFilesOfOne),
             path.substr(slash + 1, file - slash - 1)};
    return local_place{std::move(at), path.substr(0, file), path.substr(std::min(file + 1, path.size()))};
  }
  return local_place{{open_file_store(std::move(path), sync_of(options)), ""}, {}, {}};
}

}  // namespace

result<place> find_place(std::string_view uri, const place_options& options) {
  if (const uri_scheme* const added = added_scheme(uri, options.context.get())) {
    auto found = caught("the scheme", [&] { return added->find(uri, options); });
    if (!found.ok()) return std::move(found).error().note(fmt::format("opening '{}'", without_secrets(uri)));
    if (found->store == nullptr)
      return error(errc::internal, fmt::format("the function of the scheme '{}' returned no store for '{}'",
                                               added->name(), without_secrets(uri)));
    return found;
  }
  if (is_elsewhere(uri)) return find_remote_place(uri, options);
  PENSTOCK_ASSIGN(local_place found, find_local_place(uri, options, true));
  if (!found.rest.empty()) found.at.path += "/" + found.rest;
  return std::move(found.at);
}

result<place> find_object_place(std::string_view uri, const place_options& options) {
  PENSTOCK_ASSIGN(place found, find_place(uri, options));
  if (!found.path.empty() || added_scheme(uri, options.context.get()) != nullptr || is_elsewhere(uri)) return found;
  place_options as_file = options;
  as_file.is_file = true;
  PENSTOCK_ASSIGN(local_place local, find_local_place(uri, as_file, false));
  struct ::stat status{};
  if (!local.file.empty() && ::stat(local.file.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
    return error(errc::invalid_argument, fmt::format("'{}' is a folder", uri));
  return std::move(local.at);
}

result<target_location> resolve(std::string_view uri, const open_options& how) {
  target_location out;
  location& at = out.at;
  at.context = how.context;
  if (!at.context) {
    PENSTOCK_ASSIGN(at.context, context::make());
  }
  const place_options given{at.context, how.remote};
  local_place found;
  std::optional<object_head> head;
  if (added_scheme(uri, at.context.get()) == nullptr && !is_elsewhere(uri)) {
    // A name with an object's ending is read without a look-up. (References have the ending of a Parquet file.)
    if (names_object(*at.context, uri) && !names_references(uri)) {
      PENSTOCK_ASSIGN(found, find_local_place(uri, given, false, true));
      if (!found.file.empty()) {
        auto read = read_head(*found.at.store, found.at.path);
        if (read.ok()) head = std::move(*read);
      }
    }
    if (!head) {
      PENSTOCK_ASSIGN(found, find_local_place(uri, given, false));
    }
  } else {
    object_uri split{std::string(uri), {}};
    if (added_scheme(uri, at.context.get()) == nullptr) split = split_at_object(uri);
    PENSTOCK_ASSIGN(found.at, find_place(split.object, given));
    found.rest = std::move(split.inner);
  }
  if (found.file.ends_with(kArraysSuffix)) {  // saves an open call if the name is right
    std::shared_ptr<store> archive = open_zip_store(found.file, at.context);
    no_keys nothing;
    if (archive->list("", listing::children, nothing).ok()) {
      found.at = {std::move(archive), std::exchange(found.rest, {})};
      found.file.clear();
    }
  }
  if (!found.file.empty()) {
    if (!head) {
      PENSTOCK_ASSIGN(head, read_head(*found.at.store, found.at.path));
    }
    if (head && begins_as_archive(head->bytes)) {
      found.at = {open_zip_store(found.file, at.context), std::exchange(found.rest, {})};
    } else if (head) {
      at.head = std::make_shared<const object_head>(std::move(*head));
    }
  }
  const auto trimmed = [](std::string prefix) {
    if (!prefix.empty()) prefix.pop_back();
    return prefix;
  };
  at.from = std::move(found.at.store);
  at.path = trimmed(prefix_of(found.at.path));
  at.uri = child_uri(at.from->uri(), prefix_of(at.path));
  out.inner = trimmed(prefix_of(found.rest + "/" + how.path));
  return out;
}

std::shared_ptr<store> open_zip_store(std::string path, std::shared_ptr<context> with) {
  zip_store_options options;
  if (with) options.sync = with->state().options().sync;
  if (with) options.accounts = [with = std::move(with)]() -> ledger& { return with->state().accounts(); };
  return std::make_shared<zip_store>(std::move(path), std::move(options));
}

std::shared_ptr<store> make_read_only(std::shared_ptr<const store> from) {
  return std::make_shared<read_only_store>(std::move(from));
}

std::shared_ptr<store> open_file_store(std::string root, write_sync sync) {
  return make_file_store(std::move(root), sync, file_store_options().max_open_files);
}
std::shared_ptr<store> make_memory_store() { return std::make_shared<memory_store>(); }

}  // namespace penstock::inline v0
