#pragma once

#include <penstock/result.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "store/file_status.h"

namespace penstock::inline v0 {

/// A folder, in a hidden one next to an existing folder, which it replaces when all of its files are written.
///
/// The destructor removes the hidden folder, and with it the old one after `replace`. A hidden folder whose process was
/// killed is removed by the next writer that searches for abandoned files (`remove_stray_files`).
class folder_swap {
 public:
  /// Makes the hidden folder next to `folder`, whose links are followed. Returns null if that is not possible: `folder`
  /// is not a folder, is the root of a file system, or the folder above it cannot be written to.
  static std::unique_ptr<folder_swap> make(const std::string& folder) noexcept;
  folder_swap(const folder_swap&) = delete;
  folder_swap& operator=(const folder_swap&) = delete;
  ~folder_swap();

  /// The folder for the new files.
  const std::string& path() const noexcept { return draft_; }

  /// Replaces the old folder by the new one.
  ///
  /// Everything is written to the device first. The exchange is one system call if the file system has it
  /// (RENAME_EXCHANGE); elsewhere it is two renames, and a process killed between them leaves the old folder under the
  /// name `.penstock-old-NAME`.
  /// \param belongs  Whether the entry of the old folder with this relative path is removed with it. Other files, links
  ///              and their folders are kept: they have hard links in the new folder before the exchange.
  /// \error invalid_argument  A file to be kept has the name of one in the new folder, or the file system has no links.
  result<> replace(const std::function<bool(std::string_view)>& belongs);

 private:
  folder_swap(std::string folder, std::string hidden, descriptor lock)
      : folder_(std::move(folder)), hidden_(std::move(hidden)), draft_(hidden_ + "/node"), lock_(std::move(lock)) {}

  std::string folder_, hidden_, draft_;
  descriptor lock_;  // marks the writer of the hidden folder as alive for other processes
};

/// Deletes a folder and everything in it, without following links. Returns false if anything remains.
bool remove_tree(int above, const char* name) noexcept;

}  // namespace penstock::inline v0
