#pragma once

#include <memory>

#include "bind.h"

namespace penstock::inline v0 {
class external_codecs;
}

namespace penstock::inline v0::python {

/// Codecs that `factory` of penstock/core/codecs.py makes, for what the library itself has not.
std::shared_ptr<const external_codecs> python_codecs(nb::object factory);

}  // namespace penstock::inline v0::python
