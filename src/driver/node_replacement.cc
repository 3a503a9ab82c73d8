#include "driver/node_replacement.h"

#include <fmt/format.h>

#include <utility>

#include "driver/node_files.h"
#include "engine/blocking_read.h"
#include "store/file_store.h"
#include "store/memory_store.h"

namespace penstock::inline v0 {

result<std::unique_ptr<node_replacement>> node_replacement::begin(std::shared_ptr<store> at,
                                                                  const std::string& prefix) {
  auto out = std::make_unique<node_replacement>();
  if (const auto* const files = dynamic_cast<const file_store*>(at.get())) {
    out->swap_ = folder_swap::make(files->root() + "/" + prefix);
    if (!out->swap_) return std::unique_ptr<node_replacement>();
    // The swap syncs all of it at once.
    out->in_ = std::make_shared<file_store>(out->swap_->path(), file_store_options{.sync = write_sync::none});
  } else if (!at->traits().blocking) {
    out->in_ = std::make_shared<memory_store>();
  } else {
    return std::unique_ptr<node_replacement>();
  }
  out->at_ = std::move(at);
  out->prefix_ = prefix;
  return out;
}

result<> node_replacement::commit() {
  PENSTOCK_TRY(in_->flush());
  PENSTOCK_ASSIGN(const node_objects old, node_objects::find(*at_, prefix_));
  PENSTOCK_ASSIGN(const node_objects fresh, node_objects::find(*in_, ""));
  for (const std::string& key : old.others())
    if (fresh.belongs(key)) return stands_in_the_way(key);
  if (swap_) return swap_->replace([&](std::string_view key) { return old.belongs(key); });
  PENSTOCK_TRY(erase_node(*at_, prefix_));
  // The metadata documents are last: until they exist, readers find no node.
  for (std::size_t i = fresh.keys().size(); i-- > 0;) {
    const std::string& key = fresh.keys()[i];
    PENSTOCK_ASSIGN(const blocking_read object, read_and_wait(*in_, key, {}, byte_range::kAll));
    const part bytes = object.bytes;
    auto put = at_->put(prefix_ + key, {&bytes, 1}, {});
    if (!put.ok()) return std::move(put).error().note(fmt::format("writing '{}'", prefix_ + key));
  }
  return at_->flush();
}

}  // namespace penstock::inline v0
