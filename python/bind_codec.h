#pragma once

#include <memory>

#include "bind.h"

namespace penstock::inline v0 {
class codec_provider;
}

namespace penstock::inline v0::python {

/// Codecs that `factory` of penstock/core/codecs.py makes, for those that the library itself does not have.
std::shared_ptr<const codec_provider> python_codecs(nb::object factory);

}  // namespace penstock::inline v0::python
