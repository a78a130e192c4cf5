// ApiClient: the part of the Kubernetes API that the operator needs. HttpClient (http_client.h)
// implements the interface; tests have an API server in memory.
//
// Thread-safe. Each call has a deadline, 30 s by default; an answer has at most api::kMostBytes.
// The client repeats 429 and 5xx within the deadline: after Retry-After, or a few times without
// one. 409 goes to the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "shim/base/status.h"

namespace larder::k8s {

// A kind with the names in the API server's paths.
struct Resource {
  std::string group;    // "": core
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
inline const Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies",
                                       "NetworkPolicy"};
inline const Resource kRuntimeClasses{"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false};
inline const Resource kStorageClasses{"storage.k8s.io", "v1", "storageclasses", "StorageClass",
                                      false};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline const Resource kWebhooks{"admissionregistration.k8s.io", "v1",
                                "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
                                false};
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
  bool initial_end = false;  // stream(): the bookmark behind the initial objects
};

// Receives a list object by object, so that the whole list need not fit in memory.
struct ListSink {
  std::function<void(api::Object)> take;  // with apiVersion and kind filled in
  std::function<void()> begin_anew;       // forget all objects: the list expired (410) and restarts
};

class ApiClient {
 public:
  virtual ~ApiClient() = default;

  // kNotFound: no such object.
  virtual Result<api::Object> get(const Resource& resource, const std::string& ns,
                                  const std::string& name) = 0;
  virtual Result<List> list(const Resource& resource, const Selector& selector) = 0;
  // kAlreadyExists: the name is taken.
  virtual Result<api::Object> create(const Resource& resource, const api::Object& object) = 0;
  // PUT. kFailedPrecondition: metadata.resourceVersion is not the newest (409).
  virtual Result<api::Object> replace(const Resource& resource, const api::Object& object) = 0;
  // Server-side apply by api::kFieldManager, forced. Creates a missing object. `subresource`: "" or
  // "status".
  virtual Result<api::Object> apply(const Resource& resource, const api::Object& object,
                                    const std::string& subresource = "") = 0;
  // JSON merge patch.
  virtual Result<api::Object> merge(const Resource& resource, const std::string& ns,
                                    const std::string& name, const api::Object& patch) = 0;
  // Deletes in the background; a missing object is no error. `uid`: delete only this object (empty:
  // any object of the name).
  virtual Status remove(const Resource& resource, const std::string& ns, const std::string& name,
                        const std::string& uid = "") = 0;

  // Calls `on_event` for changes after `version` until the stream ends (ok), `stop` is requested,
  // or the stream fails. kOutOfRange: the version is too old (410), list again. Without a deadline;
  // a stream without events for 5 minutes ends. After Retry-After, returns when that time is over.
  virtual Status watch(const Resource& resource, const Selector& selector,
                       const std::string& version, std::stop_token stop,
                       const std::function<void(WatchEvent)>& on_event) = 0;

  // Passes the list to `sink` page by page and returns the list's resourceVersion.
  virtual Result<std::string> list_into(const Resource& resource, const Selector& selector,
                                        const ListSink& sink) {
    Result<List> all = list(resource, selector);
    if (!all.ok()) return all.status();
    for (api::Object& item : all->items) sink.take(std::move(item));
    return std::move(all->version);
  }

  // List and watch in one stream (WatchList): all objects as kAdded, a bookmark with `initial_end`,
  // then changes as in watch(). kUnsupported: the server cannot stream (422, or an old etcd); use
  // list() and watch().
  virtual Status stream(const Resource& resource, const Selector& selector, std::stop_token stop,
                        const std::function<void(WatchEvent)>& on_event) {
    static_cast<void>(resource), static_cast<void>(selector), static_cast<void>(stop),
        static_cast<void>(on_event);
    return {Code::kUnsupported, "no streamed lists"};
  }

  // GET of a path that is no resource ("/version").
  virtual Result<api::Object> get_path(const std::string& path) = 0;
};

}  // namespace larder::k8s
