#pragma once

/// The version and the export mark of every public header.
///
/// The build and the Python package read the version from here: it is written once. All names are in `namespace
/// penstock::inline v0`: users write `penstock::array`, the linker sees `penstock::v0::array`, so two incompatible
/// versions can live in one process.
#define PENSTOCK_VERSION "0.1.0"

/// Marks the names that a shared build exports; all others are hidden. Written between `class` and the name.
#define PENSTOCK_API __attribute__((visibility("default")))
