#include "session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "interrupt.h"
#include "run.h"

namespace penstock::inline v0::cli {
namespace {

constexpr const char* kReaderGone = "the reader of the output has gone";

/// "penstock: ", in red on a terminal.
std::string error_prefix() { return has_colors(STDERR_FILENO) ? "\x1b[31mpenstock:\x1b[0m " : "penstock: "; }

result<double> number_of(const std::string& text, const char* flag, double most) {
  double out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc() || end != text.data() + text.size() || !(out >= 0 && out <= most))
    return error(errc::invalid_argument, fmt::format("{} takes a number from 0 to {}, got '{}'", flag, most, text));
  return out;
}

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

bool has_colors(int descriptor) {
  const char* const forbidden = std::getenv("NO_COLOR");
  if (forbidden != nullptr && *forbidden != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

std::string painted(color as, std::string_view text) {
  static const bool kColors = has_colors(STDOUT_FILENO);
  constexpr const char* kCodes[] = {"", "2", "1", "31", "32", "33", "1;34"};
  if (!kColors || as == color::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(as)], text);
}

result<remote_options> storage_flags::options() const {
  remote_options out;
  out.anonymous = anonymous;
  out.profile = profile;
  out.region = region;
  out.endpoint_url = endpoint_url;
  out.ca_bundle = ca_bundle;
  if (path_style) out.path_style = true;
  if (netrc) out.netrc = "~";
  if (!timeout.empty()) {
    PENSTOCK_ASSIGN(out.timeout_s, number_of(timeout, "--timeout", 86400));
  }
  if (!retries.empty()) {
    PENSTOCK_ASSIGN(const double count, number_of(retries, "--retries", 1000));
    out.retries = static_cast<unsigned>(count);
  }
  for (const std::string& each : headers) {
    const std::size_t colon = each.find(':');
    if (colon == std::string::npos || colon == 0)
      return error(errc::invalid_argument, fmt::format("--header takes 'NAME: VALUE', got '{}'", each));
    const std::size_t value = each.find_first_not_of(' ', colon + 1);
    out.headers.emplace_back(each.substr(0, colon), value == std::string::npos ? "" : each.substr(value));
  }
  return out;
}

json storage_flags::document() const {
  json::object_t out;
  const auto add = [&out](const char* name, const std::string& value) {
    if (!value.empty()) out.emplace_back(name, value);
  };
  if (anonymous) out.emplace_back("anon", true);
  if (path_style) out.emplace_back("path_style", true);
  if (netrc) out.emplace_back("netrc", true);
  add("profile", profile);
  add("region", region);
  add("endpoint_url", endpoint_url);
  add("ca_bundle", ca_bundle);
  add("timeout", timeout);
  add("retries", retries);
  json::object_t fields;
  if (auto known = options(); known.ok())
    for (const auto& [name, value] : known->headers) fields.emplace_back(name, value);
  if (!fields.empty()) out.emplace_back("headers", std::move(fields));
  return out;
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
    // Written directly: a failed write of an error message cannot be reported.
    const std::string text = document.dump(2) + "\n";
    (void)write_all(STDOUT_FILENO, std::as_bytes(std::span(text)));
  } else {
    const std::string text = fmt::format("{}{}\n", error_prefix(), failure.to_string());
    (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)));
  }
  return kFailed;
}

int session::refuse(const std::string& why) const {
  if (as_json) {
    fail(error(errc::invalid_argument, why));
  } else {
    const std::string text = fmt::format("{}{}\n", error_prefix(), why);
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
