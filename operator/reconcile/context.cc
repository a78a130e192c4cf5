#include "operator/reconcile/context.h"

#include "operator/reconcile/condition_events.h"

namespace larder::reconcile {

// The result is `applied` only where the status differs: a write wakes all watches and this
// reconciler again.
Status write_status(const Context& context, const k8s::Resource& resource,
                    const api::Object& object, const api::Object& status) {
  if (api::at(object, "status") == status) return {};
  // Server-side apply to the subresource status. The object in the cache may be old, and an apply
  // needs no resourceVersion.
  const Result<api::Object> written = context.client.apply(
      resource,
      {{"apiVersion", resource.group + "/" + resource.version},
       {"kind", resource.kind},
       {"metadata", {{"name", api::name_of(object)}, {"namespace", api::namespace_of(object)}}},
       {"status", status}},
      "status");
  // The Event comes after a successful write. A failed write is tried again, and would tell twice.
  if (written.ok() && context.tell)
    if (std::optional<k8s::Event> event = event_of_change(resource, object, status))
      context.tell(std::move(*event));
  // A deleted object needs no status.
  return written.ok() || written.status().code() == Code::kNotFound ? Status() : written.status();
}

}  // namespace larder::reconcile
