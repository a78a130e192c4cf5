// Remedies for findings of `larderctl backend check`, with the fields of a CacheBackend. Pure;
// thread-safe.
#pragma once

#include <string>

namespace larder::reconcile {

// `otherwise`: the remedy of larderctl, returned if the finding concerns the server and no field.
std::string remedy_for_backend(const std::string& id, const std::string& otherwise);

}  // namespace larder::reconcile
