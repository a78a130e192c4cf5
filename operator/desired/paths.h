// Paths in larderd's container. The engine's container has the first two at the same places.
#pragma once

#include <string_view>

namespace larder::desired {

inline constexpr std::string_view kRunPath = "/run/larder";     // sockets
inline constexpr std::string_view kPayloadPath = "/larder";     // the Python package
inline constexpr std::string_view kMemoryPath = "/dev/larder";  // tmpfs: arena, index, locks
inline constexpr std::string_view kHugepagesPath = "/dev/larder-huge";  // hugetlbfs: the arena
inline constexpr std::string_view kDiskPath = "/var/lib/larder";
inline constexpr std::string_view kConfigPath = "/etc/larder";
inline constexpr std::string_view kConfigFile = "larder.yaml";
// Beside kConfigPath: a mount inside a read-only mount needs its folder there.
inline constexpr std::string_view kAuthPath = "/etc/larder-auth";
inline constexpr std::string_view kPasswordFile = "password",
                                  kSentinelPasswordFile = "sentinel-password";
inline constexpr std::string_view kTlsPath = "/etc/larder-tls";
inline constexpr std::string_view kPeersPath = "/etc/larder-peers";
inline constexpr std::string_view kCaFile = "ca.crt", kCertFile = "tls.crt", kKeyFile = "tls.key";

// Folders of the node in placement Node. /NAMESPACE/POOL follows, so that only the pods of one pool
// mount a folder.
inline constexpr std::string_view kNodeRun = "/run/larder";
inline constexpr std::string_view kNodeMemory = "/dev/shm/larder";
inline constexpr std::string_view kNodeHugepages = "/dev/hugepages/larder";

}  // namespace larder::desired
