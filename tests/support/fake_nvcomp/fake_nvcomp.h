#pragma once

/// \file
/// A shared library with those of nvCOMP's functions that Penstock calls, for tests: on the fake driver's memory and
/// streams, with the decoders of the reference libraries. The environment variable PENSTOCK_NVCOMP names it.
///
/// PENSTOCK_FAKE_NVCOMP_VERSION (6000) is the version that it reports. It has the functions of versions 5 and 6; one
/// that the reported version does not have fails when it is called.

#include <cstdint>

extern "C" {

/// Streams that were decoded so far, of all codecs or of one ("zstd", "lz4", "snappy", "deflate", "gzip").
std::uint64_t penstock_fake_nvcomp_streams(const char* codec);
/// Of these, streams in calls that left it to the library whether a decompression engine decodes them.
std::uint64_t penstock_fake_nvcomp_engine_streams();
/// Calls that decode, so far.
std::uint64_t penstock_fake_nvcomp_calls();
/// From now on every stream's status is this (0: its own), or (-1) none is written.
void penstock_fake_nvcomp_say(int status);
/// From now on calls to decode fail with this status; 0: they do not.
void penstock_fake_nvcomp_fail(int status);
/// From now on this is called whenever the size of the workspace is queried, which is while headers are read; null: no
/// call.
void penstock_fake_nvcomp_on_workspace(void (*call)());
/// The workspace that is requested, per decoded byte, in eighths.
void penstock_fake_nvcomp_workspace(std::uint64_t eighths);
}
