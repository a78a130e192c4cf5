#include "operator/webhook/object_watch.h"

namespace larder::webhook {

std::unique_ptr<k8s::Informer> watch_object(k8s::ApiClient& client, const k8s::Resource& resource,
                                            const std::string& ns, const std::string& name,
                                            std::function<void()> changed,
                                            const base::Clock& clock) {
  k8s::Informing informing;
  informing.resource = resource;
  informing.selector.ns = ns;
  // With this selector, a role with resourceNames allows list and watch.
  informing.selector.fields = "metadata.name=" + name;
  // Secrets have keys: the cache keeps only their metadata, and readers GET the object.
  informing.trim = [](api::Object& object) {
    for (auto at = object.begin(); at != object.end();)
      at = at.key() == "metadata" ? std::next(at) : object.erase(at);
  };
  informing.changed = [changed = std::move(changed)](const k8s::ObjectPtr&, const k8s::ObjectPtr&) {
    changed();
  };
  return k8s::Informer::start(client, std::move(informing), clock);
}

}  // namespace larder::webhook
