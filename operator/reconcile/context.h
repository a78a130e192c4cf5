// Context: what reconcilers see and act on. Everything outlives them.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "operator/desired/larderd.h"
#include "operator/k8s/api_client.h"
#include "operator/k8s/event_recorder.h"
#include "operator/k8s/informer.h"
#include "operator/reconcile/children.h"

namespace larder::reconcile {

struct Context {
  k8s::ApiClient& client;  // writes only while this process leads
  const k8s::Cache& pools;
  const k8s::Cache& backends;
  const k8s::Cache& pods;  // with the label larder.dev/pool, trimmed by trim_pod()
  ChildCaches children;
  desired::Defaults defaults;
  std::function<std::string()> now;           // RFC 3339
  std::function<void(k8s::Event)> tell = {};  // people, by an Event; nothing: nobody is told
};

// How a reconcile ended.
struct Done {
  Status status;                       // an error: again, with a backoff
  std::chrono::milliseconds again{0};  // 0: when something changes
};

// Brings the object's status to `status` where it is another, and tells people if that is worth an Event; that the object is gone
// meanwhile is no error.
Status write_status(const Context& world, const k8s::Resource& resource, const api::Object& object, const api::Object& status);

}  // namespace larder::reconcile
