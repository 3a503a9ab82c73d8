#pragma once

#include <penstock/store.h>

namespace penstock::inline v0 {

/// A store over HTTP. Its versions are validators, whose texts (`text_of`, `version_of_text` of http_message.h) mean
/// the same in another process.
class validated_store : public store {};

}  // namespace penstock::inline v0
