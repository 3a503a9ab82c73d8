#include "api/open_described.h"

#include "api/array_state.h"

namespace penstock::inline v0 {

result<array> open_described(std::shared_ptr<const store> from, const open_options& options,
                             const std::vector<std::pair<std::string, std::string>>& documents) {
  std::string prefix = options.path;
  while (!prefix.empty() && prefix.back() == '/') prefix.pop_back();
  if (!prefix.empty()) prefix += '/';

  const std::shared_ptr<store> shelf = make_memory_store();
  for (const auto& [name, text] : documents) {
    const part bytes = std::as_bytes(std::span(text));
    auto put = shelf->put(prefix + name, {&bytes, 1}, {});
    if (!put.ok()) return std::move(put).error();
  }
  PENSTOCK_ASSIGN(const array opened, open_array(std::shared_ptr<const store>(shelf), options));
  auto state = std::make_shared<array_state>(opened.state());
  state->uid = state->context->state().next_uid();
  state->caches_indexes = from->traits().versions || options.cache_unversioned_indexes;
  state->uri = from->uri();
  if (!prefix.empty()) {
    if (!state->uri.empty() && state->uri.back() != '/') state->uri += '/';
    state->uri.append(prefix, 0, prefix.size() - 1);
  }
  state->store = std::move(from);
  return array(std::move(state));
}

}  // namespace penstock::inline v0
