// The names that users, the operator, the injector and the chart share. One place.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace larder::api {

inline constexpr std::string_view kGroup = "larder.dev";
inline constexpr std::string_view kVersion = "v1alpha1";
inline constexpr std::string_view kFieldManager = "larder-operator";

// Annotations of pods.
inline constexpr std::string_view kPoolAnnotation = "larder.dev/pool";  // written by the user
// "false": no cache for the pod
inline constexpr std::string_view kInjectAnnotation = "larder.dev/inject";
inline constexpr std::string_view kInjectedAnnotation = "larder.dev/injected";  // VERSION/POOL
// Reason and remedy.
inline constexpr std::string_view kNotInjectedAnnotation = "larder.dev/not-injected";
// A missing feature and the remedy.
inline constexpr std::string_view kNoticeAnnotation = "larder.dev/notice";
// larderd's configuration: YAML, read through the downward API
inline constexpr std::string_view kConfigAnnotation = "larder.dev/config";
// Desired::restart_hash().
inline constexpr std::string_view kRestartAnnotation = "larder.dev/restart-hash";
// Names of volumes, with commas between them. The cluster-autoscaler moves a pod with an emptyDir
// only if all of the pod's emptyDirs stand here.
inline constexpr std::string_view kMovableVolumesAnnotation =
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

// Annotations of OpenShift with the ids of a namespace: START/SIZE or START-END.
inline constexpr std::string_view kUserRangeAnnotation = "openshift.io/sa.scc.uid-range";
inline constexpr std::string_view kGroupRangesAnnotation =
    "openshift.io/sa.scc.supplemental-groups";

// Holds a deleted pool of placement Node until its nodes are free of its memory
// (reconcile/memory_freeing.h).
inline constexpr std::string_view kMemoryFinalizer = "larder.dev/free-memory";

// Labels of the operator's objects.
// = kFieldManager
inline constexpr std::string_view kManagedByLabel = "app.kubernetes.io/managed-by";
// On a Namespace: the pool of its engines.
inline constexpr std::string_view kPoolLabel = "larder.dev/pool";
inline constexpr std::string_view kBackendLabel = "larder.dev/backend";
// On a pod whose larderd serves peers: the pool. Selects the pods of the Service and the
// NetworkPolicy of peers.
inline constexpr std::string_view kPeersLabel = "larder.dev/peers";

// Parts of an injected pod. All names begin with "larder".
inline constexpr std::string_view kSidecarContainer = "larder";  // larderd: a native sidecar
// Init container: copies the shim.
inline constexpr std::string_view kPayloadContainer = "larder-payload";
inline constexpr std::string_view kFoldersContainer = "larder-folders";  // init container of a node
// /run/larder: sockets; larderd and the engine
inline constexpr std::string_view kRunVolume = "larder-run";
// /dev/larder: arena, index, locks; only larderd
inline constexpr std::string_view kMemoryVolume = "larder-memory";
inline constexpr std::string_view kHugepagesVolume = "larder-hugepages";  // /dev/larder-huge
// /larder: the Python package with liblarder.so
inline constexpr std::string_view kPayloadVolume = "larder-payload";
inline constexpr std::string_view kConfigVolume = "larder-config";  // /etc/larder/larder.yaml
inline constexpr std::string_view kDiskVolume = "larder-disk";      // /var/lib/larder
// /etc/larder-auth: passwords
inline constexpr std::string_view kAuthVolume = "larder-backend-auth";
inline constexpr std::string_view kTlsVolume =
    "larder-backend-tls";  // /etc/larder-tls: ca.crt, tls.crt, tls.key
// /etc/larder-peers: ca.crt, tls.crt, tls.key
inline constexpr std::string_view kPeersVolume = "larder-peers";
inline constexpr int kMetricsPort = 9464;  // larderd: /metrics, /healthz, /readyz, /v1/status

// The supervisor of an engine's pod: the operator asks /v1/supervisor, probes use the socket.
inline constexpr int kSupervisorPort = 9465;

// larderd for the other larderd of the pool.
inline constexpr int kPeersPort = 9466;

struct PortRange {
  int first, last;
};

// A plug-in: the container beside larderd that speaks to backends of one type.
struct Plugin {
  std::string_view service;    // spec.type of a CacheBackend
  std::string_view scheme;     // of backend.url; SCHEME.image of the chart is the image
  std::string_view container;  // its name
  std::string_view module;     // the program: python3 -m MODULE
  // On a pod with the container: the backend. Selects the pods in NetworkPolicies.
  std::string_view label;
  PortRange ports;  // at which the plug-in listens; {0, 0}: none

  constexpr bool listens() const { return ports.last != 0; }
};

// The ports of Mooncake are for the other members of the Mooncake pool. Mooncake takes random ports
// of the range. The default range of Mooncake begins at 15000, where Istio has its ports.
inline constexpr std::array<Plugin, 2> kPlugins{{
    {"Mooncake",
     "mooncake",
     "larder-mooncake",
     "larder_mooncake",
     "larder.dev/mooncake",
     {24000, 24099}},
    {"InfiniStore",
     "infinistore",
     "larder-infinistore",
     "larder_infinistore",
     "larder.dev/infinistore",
     {}},
}};

// Null: no plug-in has a container of this name.
constexpr const Plugin* plugin_in(std::string_view container) {
  const auto* const found = std::ranges::find(kPlugins, container, &Plugin::container);
  return found == kPlugins.end() ? nullptr : found;
}

// Whether the injector adds a container of this name to an engine's pod.
constexpr bool is_injected(std::string_view container) {
  return container == kSidecarContainer || container == kPayloadContainer ||
         plugin_in(container) != nullptr;
}

// User and group of larderd in an engine's pod, and of a managed server. Sockets have mode 0660 and
// larderd's group, so that an engine of any uid with this group may attach.
inline constexpr int kUser = 65532;
inline constexpr int kUserGroup = 65532;

// The image has programs in /usr/bin and the shim in /payload (larder/ with liblarder.so inside).
inline constexpr std::string_view kImagePayload = "/payload";

}  // namespace larder::api
