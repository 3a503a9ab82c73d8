// Reads an array on the context's threads while this thread does something else, shows how far the read is, and cancels
// a second read.
//
//   async_read [PATH]

#include <penstock/penstock.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "sample_array.h"

namespace ps = penstock;

ps::result<> run(const std::string& path) {
  ps::context_options settings;
  settings.threads = 2;
  ps::open_options options;
  PENSTOCK_ASSIGN(options.context, ps::context::make(settings));
  PENSTOCK_ASSIGN(const ps::array a, ps::open_array(path, options));

  PENSTOCK_ASSIGN(const std::uint64_t count, ps::element_count(a.shape()));
  std::vector<std::byte> memory(count * a.type().item_bytes());
  const auto out = ps::tensor_view::contiguous(memory.data(), a.type(), a.shape());
  const ps::basic_selection everything;

  // `memory` is lent to the read until the ticket is done.
  PENSTOCK_ASSIGN(ps::ticket reading, a.read_async(everything, out));
  while (!reading.wait_for(std::chrono::milliseconds(100))) {
    const ps::read_progress now = reading.progress();
    std::printf("%llu of %llu bytes\n", static_cast<unsigned long long>(now.done_bytes),
                static_cast<unsigned long long>(now.total_bytes));
  }
  PENSTOCK_TRY(reading.wait());
  std::printf("read %zu bytes\n", memory.size());

  // A read that was cancelled returns an error, unless it had already ended.
  PENSTOCK_ASSIGN(ps::ticket unwanted, a.read_async(everything, out));
  unwanted.cancel();
  const ps::result<> outcome = unwanted.wait();
  if (!outcome.ok() && outcome.error().code() != ps::errc::cancelled) return outcome.error().clone();
  std::printf("second read: %s\n", outcome.ok() ? "done before it could be cancelled" : "cancelled");
  return {};
}

int main(int argc, char** argv) {
  const sample_array sample(argc, argv);
  const ps::result<> done = run(sample.path());
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done.ok() ? 0 : 1;
}
