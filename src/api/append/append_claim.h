#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <penstock/store.h>
#include "driver/append_claim_key.h"
#include "engine/write_fence.h"

namespace penstock::inline v0 {

inline constexpr std::uint64_t kMaxClaimBytes = 1024;

/// The right to append to an array or to resize it: one writer has it at a time, in any process of any host.
///
/// The claim is an object next to the metadata that only one writer can create. It holds a random token, the length of
/// its lease and the axes that its owner appends along. While the owner works, a thread of the owner replaces the
/// object four times in each lease. A writer that finds the object waits. An object that keeps one version for a whole
/// lease, as measured by the clock of the writer that waits, is taken over: replaced on condition of that version.
/// Neither the clocks of two hosts nor process numbers are compared, with one exception: on the same boot of the same
/// kernel, in the same PID namespace, a claim whose process has ended is taken over at once.
///
/// An owner that continues after it lost its claim is refused: see `write_fence`. Stores without versions have no
/// claims: there, one process appends.
class append_claim final : public write_fence {
 public:
  /// \param key   Of the claim. \param axes  Bit d is set if the owner writes beyond the end of axis d before the
  ///              metadata includes it. \param may_go_on  Called repeatedly while another writer has the claim; empty:
  ///              never.
  /// \error conflict  Another writer had it for ten minutes. \error cancelled  `may_go_on` returned false.
  /// \error invalid_argument  PENSTOCK_APPEND_LEASE is not a lease.
  static result<std::unique_ptr<append_claim>> take(store& at, std::string key, std::uint32_t axes,
                                                    const std::function<bool()>& may_go_on = {});
  append_claim(const append_claim&) = delete;
  append_claim& operator=(const append_claim&) = delete;
  /// Releases the claim.
  ~append_claim() override;

  /// Axes beyond whose end a previous unfinished owner may have left elements.
  std::uint32_t dirty_axes() const noexcept { return dirty_; }
  const write_guard* guard() const noexcept override;
  result<> check() override;
  /// Whether the claim was taken over, as far as this owner has noticed.
  bool lost() const noexcept;

  /// Erases the claim if it still belongs to this owner. Visible to others after the store is flushed.
  void release() noexcept;
  /// Leaves the claim to the next owner, which finds `dirty_axes` in it: this owner could not undo its writes.
  void abandon() noexcept;

 private:
  struct shared;
  append_claim();
  result<> renew();
  void start_renewing();
  void stop_renewing() noexcept;

  std::unique_ptr<shared> shared_;
  std::uint32_t dirty_ = 0;
};

}  // namespace penstock::inline v0
