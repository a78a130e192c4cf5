// The names that users, the operator, the injector and the chart share. One place.
#pragma once

#include <string_view>

namespace larder::api {

inline constexpr std::string_view kGroup = "larder.dev";
inline constexpr std::string_view kVersion = "v1alpha1";
inline constexpr std::string_view kFieldManager = "larder-operator";

// Annotations of pods.
inline constexpr std::string_view kPoolAnnotation = "larder.dev/pool";          // a user writes it, and nothing else
inline constexpr std::string_view kInjectAnnotation = "larder.dev/inject";      // a user writes "false": no cache for this pod
inline constexpr std::string_view kInjectedAnnotation = "larder.dev/injected";  // what was injected: VERSION/POOL
inline constexpr std::string_view kNotInjectedAnnotation = "larder.dev/not-injected";  // why it was left alone, and what to do
inline constexpr std::string_view kNoticeAnnotation = "larder.dev/notice";  // what its cache does without, and what to write
inline constexpr std::string_view kConfigAnnotation =
    "larder.dev/config";  // larderd's configuration: YAML, read through the downward API
inline constexpr std::string_view kRestartAnnotation = "larder.dev/restart-hash";  // of what only a restart of the pod changes

// Of a pool of placement Node: it goes when its nodes' memory is free (reconcile/memory_freeing.h).
inline constexpr std::string_view kMemoryFinalizer = "larder.dev/free-memory";

// Labels of what the operator makes.
inline constexpr std::string_view kManagedByLabel = "app.kubernetes.io/managed-by";  // = kFieldManager
inline constexpr std::string_view kPoolLabel = "larder.dev/pool";  // on a Namespace a user writes it: the pool of its engines
inline constexpr std::string_view kBackendLabel = "larder.dev/backend";

// What is in an injected pod. Everything ours begins with "larder".
inline constexpr std::string_view kSidecarContainer = "larder";           // larderd: a native sidecar
inline constexpr std::string_view kPayloadContainer = "larder-payload";   // init container: copies the shim
inline constexpr std::string_view kFoldersContainer = "larder-folders";   // init container of a node: gives larderd its folders
inline constexpr std::string_view kRunVolume = "larder-run";              // /run/larder: sockets; larderd and the engine
inline constexpr std::string_view kMemoryVolume = "larder-memory";        // /dev/larder: arena, index, locks; larderd alone
inline constexpr std::string_view kHugepagesVolume = "larder-hugepages";  // /dev/larder-huge
inline constexpr std::string_view kPayloadVolume = "larder-payload";      // /larder: the Python package with liblarder.so
inline constexpr std::string_view kConfigVolume = "larder-config";        // /etc/larder/larder.yaml
inline constexpr std::string_view kDiskVolume = "larder-disk";            // /var/lib/larder
inline constexpr std::string_view kAuthVolume = "larder-backend-auth";    // /etc/larder-auth: passwords
inline constexpr std::string_view kTlsVolume = "larder-backend-tls";      // /etc/larder-tls: ca.crt, tls.crt, tls.key
inline constexpr int kMetricsPort = 9464;                                 // of larderd: /metrics, /healthz, /readyz, /v1/status

inline constexpr int kSupervisorPort =
    9465;  // of its supervisor in an engine's pod: the operator asks it /v1/supervisor; probes take its socket

// Who larderd is in an engine's pod, and a managed server. Sockets are 0660 of larderd's group, so that an engine of any uid attaches that
// has it among its groups.
inline constexpr int kUser = 65532;
inline constexpr int kUserGroup = 65532;

// The image: programs in /usr/bin, the shim's payload in /payload (larder/ with liblarder.so inside).
inline constexpr std::string_view kImagePayload = "/payload";

}  // namespace larder::api
