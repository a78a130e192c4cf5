// Watches one object by its name, so that whoever keeps it right need not ask every moment. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/k8s/informer.h"

namespace larder::webhook {

// Calls `changed`, on a thread of its own, when the object is made, changed or deleted; quick. Keeps nothing of it but its metadata: of a
// Secret no key. `client` and `clock` outlive the watch. Needs the verbs list and watch of that name; without them, or while the API
// server is away, it tries again with pauses that grow to 30 s.
std::unique_ptr<k8s::Informer> watch_object(k8s::ApiClient& client, const k8s::Resource& resource, const std::string& ns,
                                            const std::string& name, std::function<void()> changed, const base::Clock& clock);

}  // namespace larder::webhook
