#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/array.h>
#include <penstock/layout.h>
#include "engine/context_state.h"

namespace penstock::inline v0 {

/// What an open array is made of. Immutable; what changes lives in the context.
class array_state {
 public:
  ~array_state();

  std::shared_ptr<penstock::context> context;
  std::shared_ptr<const penstock::store> store;
  std::shared_ptr<const chunk_layout> layout;
  std::string prefix;     // of the array's keys: empty, or ends with '/'
  std::uint64_t uid = 0;  // in the index cache
  bool caches_indexes = false;

  extents shape, chunks;
  std::optional<extents> shards;
  dtype type;
  std::vector<std::byte> fill_value;
  std::string attributes_json, codecs_json, codecs_text, format, uri;
  std::vector<std::optional<std::string>> dimension_names;
};

class group_state {
 public:
  std::shared_ptr<penstock::context> context;
  std::shared_ptr<const penstock::store> store;
  std::string prefix;
  bool cache_unversioned_indexes = false;
  std::string attributes_json, format, uri;
};

}  // namespace penstock::inline v0
