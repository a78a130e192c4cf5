// Context: the view and the tools of reconcilers. All members outlive the reconcilers.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
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
  std::function<void(k8s::Event)> tell = {};  // records an Event; empty: no Events
  // Seconds since 1970, for the validity of certificates.
  std::function<std::int64_t()> now_s = [] { return std::int64_t{std::time(nullptr)}; };
};

// The result of a reconcile.
struct Done {
  Status status;                       // an error: reconcile again with a backoff
  std::chrono::milliseconds again{0};  // next reconcile; 0: at the next change
};

// Done::again for a change without an event that is about to come.
inline constexpr std::chrono::milliseconds kSoon{1000};

// Writes `status` if the object's status differs, and records an Event for a notable change. A
// deleted object is no error.
Status write_status(const Context& context, const k8s::Resource& resource,
                    const api::Object& object, const api::Object& status);

}  // namespace larder::reconcile
