#pragma once

#include <penstock/store.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/http_read.h"
#include "store/s3_account.h"
#include "store/s3_write.h"
#include "store/validated_store.h"

namespace penstock::inline v0 {

/// The objects of one bucket of S3, or of a service with its protocol.
///
/// A put is atomic and, if required, on condition of the entity tag (`If-Match`, `If-None-Match`; on Google's storage
/// of the generation): the service decides, so writers anywhere lose nothing. Large objects are uploaded in parts,
/// which become one object at the end. A conditional erase compares before it erases; only services with `If-Match` for
/// DELETE make that atomic.
class s3_store final : public validated_store {
 public:
  s3_store(std::shared_ptr<http_transport> through, std::shared_ptr<s3_account> account, const remote_options& options,
           const s3_store_options& sizes = {});

  store_traits traits() const override;
  void read(std::span<const byte_read> reads, completion_sink& sink, std::stop_token stop) const override;
  void write(std::span<const byte_write> writes, write_sink& sink, std::stop_token stop) override;
  result<version> put(std::string_view key, std::span<const part> parts, const write_condition& condition) override;
  result<> erase(std::string_view key, const write_condition& condition) override;
  result<> list(std::string_view prefix, listing what, key_sink& sink) const override;
  std::string uri() const override;

 private:
  std::shared_ptr<const s3_bucket> bucket_;
  std::shared_ptr<const http_objects> objects_;
  s3_store_options sizes_;
};

}  // namespace penstock::inline v0
