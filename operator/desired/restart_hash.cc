#include "operator/desired/larderd.h"
#include "operator/desired/short_hash.h"

namespace larder::desired {

// Whatever a running larderd does not take over from its configuration, and all that Kubernetes never changes in a running pod.
std::string restart_hash(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend, const Defaults& defaults,
                         const EnginePod& engine) {
  api::Object all = api::Object::array();
  all.push_back(larderd_config(pool, backend, engine));
  all.push_back(larderd_container(pool, backend, defaults, engine));
  all.push_back(larderd_volumes(pool, backend));
  return short_hash(all.dump());
}

}  // namespace larder::desired
