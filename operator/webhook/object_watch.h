// Watches one object by name, so that its owner need not poll. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/k8s/informer.h"

namespace larder::webhook {

// Calls `changed` on an internal thread when the object is created, changed or deleted; `changed`
// must be quick. Keeps only metadata, so no key of a Secret. `client` and `clock` outlive the
// watch. Needs the verbs list and watch for the name. Without them, or without an API server, tries
// again with pauses that grow to 30 s.
std::unique_ptr<k8s::Informer> watch_object(k8s::ApiClient& client, const k8s::Resource& resource,
                                            const std::string& ns, const std::string& name,
                                            std::function<void()> changed,
                                            const base::Clock& clock);

}  // namespace larder::webhook
