#pragma once

// Chains of codecs that several tests use.

namespace penstock::test {

inline constexpr const char* kZstd =
    R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":true}}])";

}  // namespace penstock::test
