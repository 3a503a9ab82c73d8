#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <penstock/store.h>

namespace penstock::inline v0 {

/// The right to append to an array: one writer has it at a time, in whatever process.
///
/// Rows are written before the metadata names them, so two appenders would write to the same place. The claim is an
/// object beside the metadata that only one of them can create; who finds it waits. A claim whose owner is dead, or
/// that was not renewed for `patience`, is taken over. Stores without versions have no claims: there, one process
/// appends.
class append_claim {
 public:
  static constexpr std::chrono::milliseconds kPatience{10'000};
  static constexpr std::chrono::milliseconds kRenewal{2'000};

  /// \param key  Of the claim. Waits, at most `longest`, while another has it.
  /// \error conflict  Another still had it.
  static result<append_claim> take(store& at, std::string key,
                                   std::chrono::milliseconds longest = std::chrono::minutes(10),
                                   std::chrono::milliseconds patience = kPatience);
  append_claim(append_claim&& other) noexcept;
  append_claim& operator=(append_claim&&) = delete;
  /// Gives the claim back.
  ~append_claim();

  /// Tells those who wait that the owner lives; does nothing before `kRenewal` has passed.
  /// \error conflict  The claim was taken over.
  result<> renew();

 private:
  append_claim(store& at, std::string key) noexcept : store_(&at), key_(std::move(key)) {}
  store* store_;
  std::string key_;
  version mine_;  // unknown: the store has no versions, or the claim was lost
  std::chrono::steady_clock::time_point renewed_ = std::chrono::steady_clock::now();
};

}  // namespace penstock::inline v0
