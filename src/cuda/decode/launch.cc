#include "cuda/decode/launch.h"

namespace penstock::inline v0::device {

const char* kernel_name(kernel_id kernel) noexcept {
  switch (kernel) {
    case kernel_id::zstd_literals:
      return "penstock_zstd_literals";
    case kernel_id::zstd_sequences:
      return "penstock_zstd_sequences";
    case kernel_id::zstd_execute:
      return "penstock_zstd_execute";
    case kernel_id::zstd_checksum:
      return "penstock_zstd_checksum";
    case kernel_id::lz:
      return "penstock_lz";
    case kernel_id::inflate:
      return "penstock_inflate";
    case kernel_id::lz4_frame:
      return "penstock_lz4_frame";
    case kernel_id::lzw:
      return "penstock_lzw";
    case kernel_id::delta:
      return "penstock_delta";
    case kernel_id::rows:
      return "penstock_rows";
    case kernel_id::crc32c:
      return "penstock_crc32c";
    case kernel_id::transform:
      return "penstock_transform";
    case kernel_id::library_check:
      return "penstock_library_check";
    case kernel_id::shuffle:
      return "penstock_shuffle";
    case kernel_id::encode_lz4:
      return "penstock_encode_lz4";
    case kernel_id::encode_zstd:
      return "penstock_encode_zstd";
    case kernel_id::encode_zstd_blocks:
      return "penstock_encode_zstd_blocks";
    case kernel_id::join_zstd_blocks:
      return "penstock_join_zstd_blocks";
    case kernel_id::append_crc32c:
      return "penstock_append_crc32c";
    case kernel_id::nvcomp:
      break;
  }
  return "";
}

}  // namespace penstock::inline v0::device
