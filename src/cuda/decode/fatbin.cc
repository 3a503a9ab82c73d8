#include "cuda/decode/fatbin.h"

#if defined(PENSTOCK_FATBIN)
// The assembler includes the file; a compiler would need minutes for the same bytes as numbers.
__asm__(
    ".pushsection .rodata.penstock_fatbin, \"a\"\n"
    ".balign 64\n"
    ".hidden penstock_fatbin_begin\n"
    ".globl penstock_fatbin_begin\n"
    "penstock_fatbin_begin:\n"
    ".incbin \"" PENSTOCK_FATBIN
    "\"\n"
    ".hidden penstock_fatbin_end\n"
    ".globl penstock_fatbin_end\n"
    "penstock_fatbin_end:\n"
    ".popsection\n");

extern "C" const std::byte penstock_fatbin_begin[];
extern "C" const std::byte penstock_fatbin_end[];
#endif

namespace penstock::inline v0::device {

std::span<const std::byte> fatbin() noexcept {
#if defined(PENSTOCK_FATBIN)
  return {penstock_fatbin_begin, penstock_fatbin_end};
#else
  return {};
#endif
}

}  // namespace penstock::inline v0::device
