#pragma once

// Small arrays of chunks and shards on the fake driver, and a context whose workers and device take turns by a seed.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include <penstock/penstock.h>
#include "chains.h"
#include "fake_device.h"
#include "support/deterministic_executor.h"
#include "support/model_array.h"

namespace penstock::test {

struct opened_array {
  model_array model;
  array from;
};

/// Writes an array at a path of a store, and opens it.
inline opened_array make_array(const std::shared_ptr<store>& to, const std::shared_ptr<context>& ctx, std::string path,
                               const model_options& options) {
  model_array model = write_model(*to, path + "/", options);
  open_options where;
  where.context = ctx;
  where.path = std::move(path);
  return {std::move(model), open_array(to, where).value()};
}

/// An array of three dimensions; a fifth of the chunks was never written; every other seed has shards.
inline model_options small_model(std::uint64_t seed) {
  model_options options;
  options.shape = {13, 17, 9};
  options.chunks = {4, 5, 9};
  options.dtype = "int16";
  options.codecs = kZstd;
  options.missing = 0.2;
  options.seed = seed;
  if (seed % 2 == 0) options.shards = extents{8, 10, 9};
  return options;
}

struct seeded_context {
  std::shared_ptr<deterministic_executor> executor;
  std::shared_ptr<context> with;
};

/// The device does nothing until the executor gives it a turn, and has little memory.
inline seeded_context make_seeded(std::uint64_t device_seed, std::uint64_t executor_seed) {
  penstock_fake_cuda_configure(device_seed, 1, 0);
  seeded_context out;
  out.executor = std::make_shared<deterministic_executor>(executor_seed);
  out.executor->pending = [] { return penstock_fake_cuda_pending(); };
  out.executor->deliver = [](std::uint64_t) { penstock_fake_cuda_pump(1); };
  out.executor->wakes_from_outside = kCompletionTime;
  context_options options;
  options.threads = 3;
  options.page_locked_bytes = 8192;
  options.device_memory_bytes = 3 * 65536;
  options.executor = out.executor;
  out.with = context::make(options).value();
  return out;
}

}  // namespace penstock::test
