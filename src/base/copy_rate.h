#pragma once

namespace penstock::inline v0 {

/// Bytes per second that threads copy in memory together (`memcpy`): a ceiling for the speed of reads and writes.
///
/// The first call with a number of threads measures it, in about 20 ms; later ones return the same value.
/// \param threads  0: one for each processor that this process may use. At most 16 are used: more of them do not copy
/// faster.
/// \returns 0 if memory for it cannot be allocated.
double copy_rate(unsigned threads = 0);

}  // namespace penstock::inline v0
