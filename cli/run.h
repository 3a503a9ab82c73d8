#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <penstock/config.h>
#include "opened.h"

namespace penstock::inline v0::cli {

/// The exit statuses; an interrupted program ends with 128 + the signal's number, as shells expect.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

/// An option of remote storage that the command line has: `--endpoint-url` sets `endpoint_url`.
struct storage_flag {
  enum class kind : std::uint8_t { on, text, header };
  std::string_view option;  ///< its name in the table of storage options; `headers` is `--header`
  kind takes;
  const char* what;  ///< text for the help

  std::string name() const;  ///< `--endpoint-url`
};
std::span<const storage_flag> known_storage_flags() noexcept;

/// Runs one command line and returns its exit status. `argv[0]` is the program's name; no state remains.
///
/// Writes to file descriptors 1 and 2. Signal handlers (SIGINT, SIGTERM, SIGHUP, SIGPIPE) are set for the call and
/// restored at its end. `demo` and `bench` replace this process by Python's, in which they are written. One call at a
/// time.
/// \param others  Opens formats that the library does not open. If it is empty, a verb that finds no format replaces
///                this process by Python's, provided that the Python package is installed.
/// \param namer   Names coordinate systems that files describe by parameters. If it is empty, `info` shows the
/// parameters.
/// \param with_bench  Whether there is a verb `bench`: its scenarios are in source checkouts only.
int run(int argc, const char* const* argv, const opener& others = {}, bool with_bench = true,
        const system_namer& namer = {});

}  // namespace penstock::inline v0::cli
