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

// On a pod with the container larder-mooncake: the backend. Selects the members of NetworkPolicies.
inline constexpr std::string_view kMooncakeLabel = "larder.dev/mooncake";

// Parts of an injected pod. All names begin with "larder".
inline constexpr std::string_view kSidecarContainer = "larder";  // larderd: a native sidecar
// Init container: copies the shim.
inline constexpr std::string_view kPayloadContainer = "larder-payload";
inline constexpr std::string_view kFoldersContainer = "larder-folders";  // init container of a node
// The plug-in of a backend of type Mooncake, beside larderd.
inline constexpr std::string_view kMooncakeContainer = "larder-mooncake";
// Containers of the injector in an engine's pod.
inline constexpr std::array<std::string_view, 3> kInjectedContainers{
    kSidecarContainer, kPayloadContainer, kMooncakeContainer};
// Whether the injector adds a container of this name to an engine's pod.
constexpr bool is_injected(std::string_view container) {
  return std::ranges::find(kInjectedContainers, container) != kInjectedContainers.end();
}
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

// larder-mooncake for the other members of the Mooncake pool. Mooncake takes random ports of this
// range. Mooncake's own range begins at 15000, where Istio has its ports.
inline constexpr int kMooncakeFirstPort = 24000, kMooncakeLastPort = 24099;

// User and group of larderd in an engine's pod, and of a managed server. Sockets have mode 0660 and
// larderd's group, so that an engine of any uid with this group may attach.
inline constexpr int kUser = 65532;
inline constexpr int kUserGroup = 65532;

// The image has programs in /usr/bin and the shim in /payload (larder/ with liblarder.so inside).
inline constexpr std::string_view kImagePayload = "/payload";

}  // namespace larder::api
