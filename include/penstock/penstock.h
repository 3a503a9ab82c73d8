#pragma once

/// \file
/// All of Penstock's public interface, except what extensions derive from: <penstock/extend/...>.

#include <penstock/appender.h>
#include <penstock/array.h>
#include <penstock/chunk_lengths.h>
#include <penstock/context.h>
#include <penstock/copy.h>
#include <penstock/create.h>
#include <penstock/crops.h>
#include <penstock/describe.h>
#include <penstock/device.h>
#include <penstock/dlpack.h>
#include <penstock/dtype.h>
#include <penstock/geo_values.h>
#include <penstock/georeference.h>
#include <penstock/joined.h>
#include <penstock/levels.h>
#include <penstock/loader.h>
#include <penstock/open.h>
#include <penstock/place.h>
#include <penstock/plan.h>
#include <penstock/profile.h>
#include <penstock/remote.h>
#include <penstock/result.h>
#include <penstock/selection.h>
#include <penstock/shape.h>
#include <penstock/shards.h>
#include <penstock/store.h>
#include <penstock/tensor.h>
#include <penstock/tiff.h>
#include <penstock/tiff_meaning.h>
#include <penstock/tiff_writer.h>
#include <penstock/tiles.h>
#include <penstock/unpack.h>
#include <penstock/window.h>
