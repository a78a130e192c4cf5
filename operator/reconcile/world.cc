#include "operator/reconcile/world.h"

namespace larder::reconcile {

Status write_status(k8s::ApiClient& client, const k8s::Resource& resource, const api::Object& object, const api::Object& status) {
  if (api::at(object, "status") == status) return {};
  const Result<api::Object> written =
      client.apply(resource,
                   {{"apiVersion", resource.group + "/" + resource.version},
                    {"kind", resource.kind},
                    {"metadata", {{"name", api::name_of(object)}, {"namespace", api::namespace_of(object)}}},
                    {"status", status}},
                   "status");
  return written.ok() || written.status().code() == Code::kNotFound ? Status() : written.status();
}

}  // namespace larder::reconcile
