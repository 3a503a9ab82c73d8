#pragma once

#include <penstock/store.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "store/s3_bucket.h"

namespace penstock::inline v0 {

struct s3_store_options {
  std::uint64_t multipart_bytes = std::uint64_t{64} << 20;  ///< larger objects are put in parts
  std::uint64_t part_bytes = std::uint64_t{16} << 20;       ///< at least 5 MiB, except the last
};

/// A put or an erase as a chain of requests, each sent after the response to the previous one, so that no thread waits.
///
/// Everything after the first request happens on the transport's thread, one step at a time. The chain owns itself:
/// pending requests keep it alive. Bodies are hashed, if necessary, before the first request.
class s3_write final : public std::enable_shared_from_this<s3_write> {
 public:
  /// Begins `what`, which completes through `sink`, perhaps before this returns.
  static void start(std::shared_ptr<const s3_bucket> bucket, const s3_store_options& sizes, const byte_write& what,
                    write_sink& sink, std::stop_token stop);

  s3_write(std::shared_ptr<const s3_bucket> bucket, const byte_write& what, write_sink& sink, std::stop_token stop)
      : bucket_(std::move(bucket)), what_(what), sink_(sink), stop_(std::move(stop)) {}

 private:
  using next_step = void (s3_write::*)(http_answer);
  struct upload_part {
    std::vector<part> body;
    std::string hash, tag;
  };

  bool conditional() const noexcept { return what_.condition.what != write_condition::kind::none; }
  s3_request request(http_method method) const;
  void ask(const s3_request& what, next_step then);

  void put_whole();
  void put_answered(http_answer answer);
  void learn_version(http_answer answer, std::string_view tag);
  void version_answered(http_answer answer);
  void resolve_doubt();
  void doubt_answered(const result<http_answer>& seen);

  void cut(const s3_store_options& sizes);
  void begin_upload();
  void upload_begun(http_answer answer);
  void send_parts();
  void part_answered(std::size_t which, result<http_answer> answer);
  void complete_upload();
  error end_refusal(http_answer& answer, int reported) const;
  void upload_answered(result<http_answer> answer);
  void give_up(error why);

  void look_first();
  void looked(http_answer answer);
  void erase();
  void erase_answered(http_answer answer);

  void end(result<version> outcome) { sink_.complete(what_.tag, std::move(outcome)); }

  const std::shared_ptr<const s3_bucket> bucket_;
  const byte_write what_;
  write_sink& sink_;
  const std::stop_token stop_;
  std::vector<http_header> fields_;  // fields that make it conditional

  std::vector<upload_part> parts_;
  std::size_t next_part_ = 0, under_way_ = 0;
  std::string upload_;     // the upload's id as a query
  std::string part_list_;  // the document that ends an upload
  part document_;
  std::optional<error> failed_;   // failure of a part
  std::optional<error> refused_;  // the last answer to the end of an upload, after an attempt without one
};

}  // namespace penstock::inline v0
