#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::inline v0 {

/// Reads structures of Thrift's compact protocol from bytes.
///
/// A reader that has failed stays failed: every later value is 0 or empty, and every loop over fields or elements ends.
/// Source: Apache Thrift, "thrift-compact-protocol.md".
class thrift_reader {
 public:
  enum class type : std::uint8_t {
    stop = 0,
    true_value = 1,
    false_value = 2,
    int8 = 3,
    int16 = 4,
    int32 = 5,
    int64 = 6,
    real = 7,
    binary = 8,
    list = 9,
    set = 10,
    map = 11,
    structure = 12
  };
  struct field {
    std::int32_t id = 0;
    type kind = type::stop;
  };

  explicit thrift_reader(std::span<const std::byte> from) noexcept : from_(from) {}

  bool failed() const noexcept { return failed_; }
  /// Bytes that have been read.
  std::size_t position() const noexcept { return at_; }

  /// Calls `read(field)` for each field of the structure that begins here; `read` reads the value, or `skip`s it.
  template <class Read>
  void structure(Read read) {
    if (++depth_ > kMaxDepth) fail();
    std::int32_t id = 0;
    while (!failed_) {
      const field next = header(id);
      if (next.kind == type::stop) break;
      read(next);
    }
    --depth_;
  }
  /// Calls `read(type)` for each element of a list.
  template <class Read>
  void list(const field& of, Read read) {
    type element = type::stop;
    for (std::uint64_t left = list_header(of, element); left != 0 && !failed_; --left) read(element);
  }

  /// An integer of any width. Another type fails.
  std::int64_t integer(type kind) noexcept;
  std::int64_t integer(const field& of) noexcept { return integer(of.kind); }
  bool boolean(const field& of) noexcept;
  std::string_view binary(type kind) noexcept;
  void skip(type kind);

 private:
  static constexpr int kMaxDepth = 16;

  void fail() noexcept { failed_ = true; }
  std::uint8_t byte() noexcept;
  std::uint64_t varint() noexcept;
  field header(std::int32_t& id) noexcept;
  std::uint64_t list_header(const field& of, type& element) noexcept;

  std::span<const std::byte> from_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace penstock::inline v0
