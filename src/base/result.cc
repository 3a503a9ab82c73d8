#include <penstock/result.h>

namespace penstock::inline v0 {

std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
      return "invalid_argument";
    case errc::out_of_range:
      return "out_of_range";
    case errc::not_found:
      return "not_found";
    case errc::corrupt_data:
      return "corrupt_data";
    case errc::unsupported:
      return "unsupported";
    case errc::permission_denied:
      return "permission_denied";
    case errc::io_error:
      return "io_error";
    case errc::version_changed:
      return "version_changed";
    case errc::conflict:
      return "conflict";
    case errc::read_only:
      return "read_only";
    case errc::cancelled:
      return "cancelled";
    case errc::deadline_exceeded:
      return "deadline_exceeded";
    case errc::resource_exhausted:
      return "resource_exhausted";
    case errc::internal:
      return "internal";
  }
  return "internal";
}

std::string error::to_string() const {
  std::string text(penstock::to_string(code()));
  text += ": ";
  text += message();
  for (const std::string& each : notes()) {
    text += "\n  ";
    text += each;
  }
  return text;
}

}  // namespace penstock::inline v0
