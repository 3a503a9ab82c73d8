#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>

#include "base/copy_rate.h"
#include "base/counted.h"
#include "base/printable.h"
#include "interrupt.h"
#include "session.h"

namespace penstock::inline v0::cli {
namespace {

std::string time_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::size_t terminal_columns() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void show(std::string text) {
  const std::size_t columns = terminal_columns() - 1;
  text.resize(columns, ' ');  // overwrites the previous text; a cursor in the last column would wrap
  text.insert(text.begin(), '\r');
  (void)write_all(STDERR_FILENO, std::as_bytes(std::span(text)));
}

}  // namespace

std::string progress_text(const std::string& what, const read_progress& now, double seconds, double ceiling) {
  const auto done = static_cast<double>(now.done_bytes), total = static_cast<double>(now.total_bytes);
  const double rate = seconds > 0 ? done / seconds : 0;
  std::string text = fmt::format("{}  {} of {}  {:.0f}%", printable(what), bytes_text(done), bytes_text(total),
                                 total > 0 ? std::floor(100 * done / total) : 100);
  if (rate > 0) {
    fmt::format_to(std::back_inserter(text), "  {:.2f} GB/s", rate / 1e9);
    if (ceiling > 0) fmt::format_to(std::back_inserter(text), " (memcpy: {:.2f})", ceiling / 1e9);
    fmt::format_to(std::back_inserter(text), "  {} left", time_text(std::max(0.0, total - done) / rate));
  }
  return text;
}

progress_line::progress_line(std::string what) : what_(std::move(what)), enabled_(isatty(STDERR_FILENO) == 1) {
  if (enabled_) ceiling_ = copy_rate();  // before the work begins, which needs the memory too
  begin_ = clock::now();
  next_ = begin_ + std::chrono::milliseconds(300);
}

progress_line::~progress_line() {
  if (!shown_) return;
  show("");
  const char home = '\r';
  (void)write_all(STDERR_FILENO, std::as_bytes(std::span(&home, 1)));
}

bool progress_line::update(const read_progress& now) {
  const auto time = clock::now();
  if (enabled_ && time >= next_) {
    next_ = time + std::chrono::milliseconds(100);
    shown_ = true;
    show(progress_text(what_, now, std::chrono::duration<double>(time - begin_).count(), ceiling_));
  }
  return caught_signal() == 0;
}

progress_fn progress_line::callback() {
  return [this](const read_progress& now) { return update(now); };
}

}  // namespace penstock::inline v0::cli
