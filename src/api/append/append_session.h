#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <penstock/array.h>
#include "api/append/append_claim.h"
#include "driver/metadata_edit.h"

namespace penstock::inline v0 {

/// Refuses rows that cannot be appended to an array of `shape` along `axis`.
/// \param only_rank  `shape` may be out of date: only its number of dimensions is used.
/// \error out_of_range  The array does not have the axis. \error invalid_argument  The shape or the dtype of `rows`.
result<> check_rows(const array_state& state, const extents& shape, const tensor_view& rows, std::size_t axis,
                    bool only_rank = false);

/// One owner's turn at the end of an array: rows are written beyond the end, and then the shape includes them.
///
/// Not thread-safe; the claim is renewed by a thread of its own.
class append_session {
 public:
  /// Takes the claim and looks up the end of the stored array.
  /// \param may_go_on  Called repeatedly while another writer has the claim; empty: never.
  /// \error As append_claim::take and read_stored_metadata.
  static result<std::unique_ptr<append_session>> begin(const array& to, std::size_t axis,
                                                       const std::function<bool()>& may_go_on);
  append_session(const append_session&) = delete;
  append_session& operator=(const append_session&) = delete;
  ~append_session();

  /// The stored shape with the rows that were written.
  const extents& shape() const noexcept { return shape_; }
  /// Rows that were written and that the stored shape does not include.
  std::uint64_t unnamed_rows() const noexcept { return shape_[axis_] - stored_[axis_]; }
  /// Whether another writer took over, as far as this one has noticed.
  bool lost() const noexcept { return claim_->lost(); }

  /// Writes rows after those that were written before. After an error `shape` is unchanged, and `write` may be called
  /// again.
  /// \error As array::append.
  result<> write(const tensor_view& rows, const write_options& options);
  /// Stores the shape with all rows that were written. May be called again after an error.
  /// \error conflict  The array was resized in the meantime, or another writer took over.
  result<> publish(bool durable);
  /// Erases elements that the shape does not include and releases the claim. No other function may be called after it.
  result<> end();

 private:
  append_session(const array& to, std::size_t axis) : to_(to), axis_(axis) {}
  const array_state& state() const noexcept { return to_.state(); }
  result<> look();

  const array to_;
  const std::size_t axis_;
  std::unique_ptr<append_claim> claim_;
  stored_metadata metadata_;  // as last read
  extents stored_, shape_;
  bool failed_ = false;
  bool ended_ = true;  // it has no claim
};

}  // namespace penstock::inline v0
