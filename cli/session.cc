#include "session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "interrupt.h"
#include "run.h"

namespace penstock::inline v0::cli {
namespace {

constexpr const char* kReaderGone = "the reader of the output has gone";

}  // namespace

result<> write_all(int descriptor, std::span<const std::byte> bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 22;  // so that a signal is seen between two writes
  while (!bytes.empty()) {
    if (caught_signal() != 0) return error(errc::cancelled, "interrupted");
    const ssize_t n = write(descriptor, bytes.data(), std::min(bytes.size(), kMost));
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) return error(errc::cancelled, kReaderGone);
      return error(errc::io_error, fmt::format("cannot write the output: {}", std::strerror(errno)));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

int session::print(std::string_view text) const {
  const auto written = write_all(STDOUT_FILENO, std::as_bytes(std::span(text)));
  return written.ok() ? kOk : fail(written.error());
}

int session::print_document(const json& document) const { return print(document.dump(2) + "\n"); }

int session::fail(const error& failure) const {
  if (failure.code() == errc::cancelled) {
    if (failure.message() == kReaderGone) return 128 + SIGPIPE;
    if (caught_signal() != 0) return 128 + caught_signal();
  }
  if (as_json) {
    const json document = json::object_t{{"error", to_json(failure)}};
    // Written directly: a failure to write a failure has nowhere to go.
    const std::string text = document.dump(2) + "\n";
    (void)write_all(STDOUT_FILENO, std::as_bytes(std::span(text)));
  } else {
    const std::string text = fmt::format("penstock: {}\n", failure.to_string());
    (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)));
  }
  return kFailed;
}

int session::refuse(const std::string& why) const {
  if (as_json) {
    fail(error(errc::invalid_argument, why));
  } else {
    const std::string text = fmt::format("penstock: {}\n", why);
    (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)));
  }
  return kUsage;
}

json to_json(const error& failure) {
  json::array_t notes;
  for (const auto& note : failure.notes()) notes.emplace_back(note);
  return json::object_t{
      {"code", std::string(to_string(failure.code()))}, {"message", failure.message()}, {"notes", std::move(notes)}};
}

json to_json(const extents& shape) {
  json::array_t sizes;
  for (const std::uint64_t size : shape) sizes.emplace_back(size);
  return sizes;
}

json parsed(const std::string& text) {
  auto document = json::parse(text);
  return document.ok() ? std::move(document).value() : json();
}

std::string bytes_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f} bytes", bytes);
  const char* const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  int unit = -1;
  do {
    bytes /= 1000;
    ++unit;
  } while (bytes >= 999.5 && unit < 5);
  return fmt::format("{:.{}f} {}", bytes, bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace penstock::inline v0::cli
