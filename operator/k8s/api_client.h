// ApiClient: the Kubernetes API server, as much of it as the operator needs. The real one stands in http_client.h; tests have one in memory.
//
// Thread-safe: calls may be made from several threads at once. Each has a deadline, 30 s unless said otherwise; an answer is at
// most api::kMostBytes. Retry-After, 429 and 5xx are waited for and tried again inside that deadline (a few times where the server
// does not say for how long); 409 is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "shim/base/status.h"

namespace larder::k8s {

// A kind as the API server's paths name it.
struct Resource {
  std::string group;    // "" of core
  std::string version;  // v1
  std::string plural;   // pods
  std::string kind;     // Pod
  bool namespaced = true;
  bool operator==(const Resource&) const = default;
};

namespace resources {
inline const Resource kPods{"", "v1", "pods", "Pod"};
inline const Resource kServices{"", "v1", "services", "Service"};
inline const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline const Resource kSecrets{"", "v1", "secrets", "Secret"};
inline const Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline const Resource kLimitRanges{"", "v1", "limitranges", "LimitRange"};
inline const Resource kQuotas{"", "v1", "resourcequotas", "ResourceQuota"};
inline const Resource kEvents{"events.k8s.io", "v1", "events", "Event"};
inline const Resource kDaemonSets{"apps", "v1", "daemonsets", "DaemonSet"};
inline const Resource kStatefulSets{"apps", "v1", "statefulsets", "StatefulSet"};
inline const Resource kBudgets{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"};
inline const Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline const Resource kWebhooks{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
                                "MutatingWebhookConfiguration", false};
inline const Resource kPools{"larder.dev", "v1alpha1", "cachepools", "CachePool"};
inline const Resource kBackends{"larder.dev", "v1alpha1", "cachebackends", "CacheBackend"};
}  // namespace resources

struct Selector {
  std::string ns;      // empty: all namespaces
  std::string labels;  // "a=b,c"
  std::string fields;  // "metadata.name=x"
};

struct List {
  std::vector<api::Object> items;  // with apiVersion and kind filled in
  std::string version;             // resourceVersion to watch from
};

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type;
  api::Object object;
  bool initial_end = false;  // of stream(): the bookmark that says that everything there was has been told
};

// Takes a list as it comes in, so that nobody needs memory for all of it.
struct ListSink {
  std::function<void(api::Object)> take;  // with apiVersion and kind filled in
  std::function<void()> begin_anew;       // what was taken so far is void: the list has become too old in the middle (410)
};

class ApiClient {
 public:
  virtual ~ApiClient() = default;

  // kNotFound where there is none.
  virtual Result<api::Object> get(const Resource& resource, const std::string& ns, const std::string& name) = 0;
  virtual Result<List> list(const Resource& resource, const Selector& selector) = 0;
  // kAlreadyExists where there is one.
  virtual Result<api::Object> create(const Resource& resource, const api::Object& object) = 0;
  // PUT: kFailedPrecondition where metadata.resourceVersion is not the newest (409).
  virtual Result<api::Object> replace(const Resource& resource, const api::Object& object) = 0;
  // Server-side apply by api::kFieldManager, forced; `subresource` "" or "status". Makes the object where there is none.
  virtual Result<api::Object> apply(const Resource& resource, const api::Object& object, const std::string& subresource = "") = 0;
  // JSON merge patch.
  virtual Result<api::Object> merge(const Resource& resource, const std::string& ns, const std::string& name,
                                    const api::Object& patch) = 0;
  // In the background; that it is gone already is no error. `uid`: only this one (empty: whichever).
  virtual Status remove(const Resource& resource, const std::string& ns, const std::string& name,
                        const std::string& uid = "") = 0;

  // Calls `on_event` from `version` on until the stream ends (ok), `stop` is asked, or it fails: kOutOfRange: the version is too
  // old (410), list again. A stream that is silent for 5 minutes ends. May run as long as it likes. Where the server said Retry-After,
  // it returns when that is over.
  virtual Status watch(const Resource& resource, const Selector& selector, const std::string& version, std::stop_token stop,
                       const std::function<void(WatchEvent)>& on_event) = 0;

  // The list, page by page; its resourceVersion.
  virtual Result<std::string> list_into(const Resource& resource, const Selector& selector, const ListSink& sink) {
    Result<List> all = list(resource, selector);
    if (!all.ok()) return all.status();
    for (api::Object& item : all->items) sink.take(std::move(item));
    return std::move(all->version);
  }

  // List and watch in one stream (WatchList): everything there is as kAdded, a bookmark with `initial_end`, then what changes, as
  // watch(). kUnsupported: the server cannot (422, or its etcd is too old), use list() and watch().
  virtual Status stream(const Resource& resource, const Selector& selector, std::stop_token stop,
                        const std::function<void(WatchEvent)>& on_event) {
    static_cast<void>(resource), static_cast<void>(selector), static_cast<void>(stop), static_cast<void>(on_event);
    return {Code::kUnsupported, "no streamed lists"};
  }

  // GET of any path ("/version"), for what is no resource.
  virtual Result<api::Object> get_path(const std::string& path) = 0;
};

}  // namespace larder::k8s
