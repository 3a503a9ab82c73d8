#include "session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/printable.h"
#include "driver/schemes.h"
#include "interrupt.h"
#include "run.h"

namespace penstock::inline v0::cli {
namespace {

constexpr const char* kReaderGone = "the reader of the output has closed it";

/// "penstock: ", in red on a terminal.
std::string error_prefix() { return has_colors(STDERR_FILENO) ? "\x1b[31mpenstock:\x1b[0m " : "penstock: "; }

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

std::string storage_flag::name() const {
  std::string out = takes == kind::header ? "--header" : fmt::format("--{}", option);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::span<const storage_flag> known_storage_flags() noexcept {
  using enum storage_flag::kind;
  static constexpr storage_flag kFlags[] = {
      {"anon", on, "Do not sign requests"},
      {"profile", text, "A profile of the credentials file"},
      {"region", text, "The region of the bucket"},
      {"endpoint_url", text, "The URL of another service with the same protocol"},
      {"path_style", on, "Name the bucket in the path"},
      {"headers", header, "'NAME: VALUE', sent with each request; may be repeated"},
      {"ca_bundle", text, "A file of certificates to trust"},
      {"netrc", on, "Read user names and passwords from ~/.netrc"},
      {"timeout", text, "The longest time without data from the server, in seconds"},
      {"retries", text, "Retries after temporary failures"},
  };
  return kFlags;
}

namespace {

result<option_value> fields_of(const std::vector<std::string>& headers) {
  option_value out;
  out.is = option_value::kind::fields;
  for (const std::string& each : headers) {
    const std::size_t colon = each.find(':');
    if (colon == std::string::npos || colon == 0)
      return error(errc::invalid_argument, fmt::format("--header takes 'NAME: VALUE', got '{}'", each));
    const std::size_t value = each.find_first_not_of(' ', colon + 1);
    option_value field;
    field.is = option_value::kind::text;
    if (value != std::string::npos) field.text = each.substr(value);
    out.fields.push_back({each.substr(0, colon), std::move(field)});
  }
  return out;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("-.0123456789") == std::string_view::npos;
}

/// The given flags, in the order of the help.
result<storage_options> given_options(const storage_flags& from) {
  storage_options out;
  for (const storage_flag& each : known_storage_flags()) {
    option_value value;
    if (const auto on = from.on.find(each.option); on != from.on.end() && on->second) {
      value.is = option_value::kind::boolean;
      value.truth = true;
    } else if (const auto text = from.texts.find(each.option); text != from.texts.end() && !text->second.empty()) {
      value.is = option_value::kind::text;
      value.text = text->second;
    } else if (each.takes == storage_flag::kind::header && !from.headers.empty()) {
      PENSTOCK_ASSIGN(value, fields_of(from.headers));
    } else {
      continue;
    }
    out.push_back({std::string(each.option), std::move(value)});
  }
  return out;
}

}  // namespace

result<remote_options> storage_flags::options() const {
  PENSTOCK_ASSIGN(const storage_options given, given_options(*this));
  remote_options out;
  for (const storage_flag& each : known_storage_flags())
    for (const auto& [name, value] : given)
      if (name == each.option)
        if (auto set = set_remote_option(out, name, value); !set.ok())
          return error(errc::invalid_argument, fmt::format("{}: {}{}", each.name(), set.error().message(),
                                                           is_number(value.text) ? ", got " + value.text : ""));
  return out;
}

json storage_flags::document() const {
  json::object_t out;
  const auto given = given_options(*this);
  if (!given.ok()) return out;
  for (const auto& [name, value] : *given) {
    json::object_t fields;
    for (const auto& [field, text] : value.fields) fields.emplace_back(field, text.text);
    if (value.is == option_value::kind::boolean) out.emplace_back(name, true);
    if (value.is == option_value::kind::text) out.emplace_back(name, value.text);
    if (value.is == option_value::kind::fields) out.emplace_back(name, std::move(fields));
  }
  return out;
}

namespace {

// RFC 8259 has no NaN and no infinities, which Zarr's and HDF5's attributes have: they become text, as in fill values.
json strict(const json& from) {
  if (const json::array_t* const items = from.as_array()) {
    json::array_t out;
    out.reserve(items->size());
    for (const json& each : *items) out.push_back(strict(each));
    return out;
  }
  if (const json::object_t* const members = from.as_object()) {
    json::object_t out;
    out.reserve(members->size());
    for (const auto& [name, value] : *members) out.emplace_back(name, strict(value));
    return out;
  }
  double number = 0;
  if (!from.is_number() || !from.get(number) || std::isfinite(number)) return from;
  return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
}

// Its lines. A document may be shown on a terminal, so that control characters that RFC 8259 permits in texts (U+007F
// to U+009F) are escaped like the others.
std::string document_text(const json& document) {
  std::string out;
  const std::string text = document.dump(2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto at = static_cast<unsigned char>(text[i]);
    const unsigned next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (at == 0x7f) {
      out += "\\u007f";
    } else if (at == 0xc2 && next >= 0x80 && next <= 0x9f) {
      out += fmt::format("\\u00{:02x}", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out + "\n";
}

}  // namespace

int session::print(std::string_view text) const {
  const auto written = write_all(STDOUT_FILENO, std::as_bytes(std::span(text)));
  return written.ok() ? kOk : fail(written.error());
}

int session::print_document(const json& document) const { return print(document_text(strict(document))); }

int session::fail(const error& failure) const {
  if (failure.code() == errc::cancelled) {
    if (failure.message() == kReaderGone) return 128 + SIGPIPE;
    if (caught_signal() != 0) return 128 + caught_signal();
  }
  if (as_json) {
    const json document = json::object_t{{"error", to_json(failure)}};
    // Written directly: a failed write of an error message cannot be reported.
    const std::string text = document_text(document);
    (void)write_all(STDOUT_FILENO, std::as_bytes(std::span(text)));
  } else {
    const std::string text = fmt::format("{}{}\n", error_prefix(), printable_lines(failure.to_string()));
    (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)));
  }
  return kFailed;
}

int session::refuse(const std::string& why) const {
  if (as_json) {
    fail(error(errc::invalid_argument, why));
  } else {
    const std::string text = fmt::format("{}{}\n", error_prefix(), printable_lines(why));
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

json count_json(double count) { return count < 9e15 ? json(static_cast<std::uint64_t>(count)) : json(count); }

}  // namespace penstock::inline v0::cli
