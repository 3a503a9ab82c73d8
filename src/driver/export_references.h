#pragma once

#include <string>

#include <penstock/array.h>

namespace penstock::inline v0 {

/// The arrays of a group, and of the groups below it, as kerchunk's references (version 1, JSON), which fsspec and
/// others open as Zarr 2. Files of this machine are named by their whole paths.
///
/// \error unsupported  What such references cannot say, by array: chunks of unequal lengths, chunks that other codecs
///                     encoded than the rest, codecs of HDF5 that numcodecs does not have; more than 10^7 references.
/// \error invalid_argument  A member is not an array of references.
/// Source: https://fsspec.github.io/kerchunk/spec.html
result<std::string> kerchunk_json_of(const group& from);

}  // namespace penstock::inline v0
