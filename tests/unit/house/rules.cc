#include "tests/unit/house/rules.h"

#include <algorithm>
#include <array>

namespace larder::house {
namespace {

// A third-party library and the only files that may see the library, each behind one class or
// function.
struct Library {
  std::string_view header;              // prefix
  std::vector<std::string_view> files;  // prefixes
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> all{
      // The loops compile the hash once more, for their instruction set, and so does the hash of a
      // file piece by piece.
      {"xxhash.h",
       {"shim/protocol/key.h", "cuda/host_loop_", "shim/client/stream_hash",
        "tests/bench/read_and_hash.cc"}},
      {"cuda.h", {"cuda/driver_abi_check.cc"}},  // only to compare: programs are built without it
      {"cudaTypedefs.h", {"cuda/driver_abi_check.cc"}},
      {"liburing.h", {"sidecar/tiers/disk/uring_queue.cc"}},
      {"hiredis/", {"sidecar/net/resp.cc", "tests/bench/remote_hiredis_arm.cc"}},
      {"openssl/",
       {"sidecar/net/tls_stream.cc", "operator/webhook/tls_acceptor.cc",
        "operator/pki/certificates.cc"}},
      {"yaml-cpp/", {"sidecar/config/yaml_events.cc"}},
      {"httplib.h", {"sidecar/pages/routes.cc", "sidecar/ctl/admin_client.cc"}},
      {"prometheus/", {"sidecar/pages/metric_families.cc", "operator/k8s/metrics.cc"}},
      {"nlohmann/",
       {"sidecar/pages/status_json.cc", "sidecar/ctl/answer_json.h", "operator/api/object.h"}},
      {"curl/", {"operator/k8s/curl_transport.cc", "operator/reconcile/fetch.cc"}},
  };
  return all;
}

// Standard C++ headers have neither dot nor slash; these are the operating system's, C's and the
// compiler's.
constexpr std::array<std::string_view, 7> kSystemFolders{"sys/", "netinet/", "arpa/", "linux/",
                                                         "net/", "asm/",     "bits/"};
constexpr std::array<std::string_view, 26> kSystemHeaders{
    "unistd.h", "fcntl.h",    "poll.h",   "pthread.h",   "signal.h",    "netdb.h",  "dirent.h",
    "sched.h",  "link.h",     "dlfcn.h",  "errno.h",     "limits.h",    "stddef.h", "stdint.h",
    "stdio.h",  "stdlib.h",   "string.h", "immintrin.h", "emmintrin.h", "cpuid.h",  "grp.h",
    "pwd.h",    "arm_neon.h", "syslog.h", "malloc.h",    "spawn.h"};

bool begins_with_any(std::string_view text, const auto& prefixes) {
  return std::ranges::any_of(prefixes,
                             [text](std::string_view prefix) { return text.starts_with(prefix); });
}

bool is_system(std::string_view header) {
  return header.find_first_of("./") == std::string_view::npos ||
         begins_with_any(header, kSystemFolders) ||
         std::ranges::find(kSystemHeaders, header) != kSystemHeaders.end();
}

const Room* room_of(std::string_view path) {
  const Room* best = nullptr;
  for (const Room& room : rooms())
    if (path.starts_with(room.path) && (best == nullptr || room.path.size() > best->path.size()))
      best = &room;
  return best;
}

std::string check_quoted(const Room& room, std::string_view header) {
  if (header.starts_with(room.path) || begins_with_any(header, room.doors)) return "";
  return std::string(room.path) + " has no door to \"" + std::string(header) + "\"";
}

std::string check_angled(std::string_view path, std::string_view header) {
  if (is_system(header)) return "";
  for (const Library& library : libraries()) {
    if (!header.starts_with(library.header)) continue;
    if (begins_with_any(path, library.files)) return "";
    return "<" + std::string(header) + "> belongs into " + std::string(library.files.front()) +
           " alone";
  }
  return "<" + std::string(header) + "> is of a library that rules.cc does not know";
}

std::string check_include(const Room& room, std::string_view path, std::string_view include) {
  const char close = include.front() == '<' ? '>' : '"';
  const std::string_view header = include.substr(1, include.find(close, 1) - 1);
  if (begins_with_any(header, room.refused))
    return std::string(room.path) + " may not see " + std::string(header);
  return close == '"' ? check_quoted(room, header) : check_angled(path, header);
}

}  // namespace

std::span<const Room> rooms() {
  static const std::vector<std::string_view> kImpure{"sys/",
                                                     "netinet/",
                                                     "unistd.h",
                                                     "fcntl.h",
                                                     "poll.h",
                                                     "fstream",
                                                     "filesystem",
                                                     "chrono",
                                                     "ctime",
                                                     "time.h",
                                                     "thread",
                                                     "mutex",
                                                     "condition_variable",
                                                     "random"};
  static const std::vector<Room> all{
      {"shim/base/", {}, {}},
      {"shim/protocol/", {"shim/base/"}, {}},
      {"shim/client/", {"shim/base/", "shim/protocol/", "cuda/"}, {}},
      {"shim/capi/", {"shim/client/", "shim/base/", "shim/protocol/", "cuda/"}, {}},
      {"cuda/", {"shim/base/", "shim/protocol/"}, {}},
      {"sidecar/base/", {"shim/base/", "shim/protocol/"}, {}},
      // One connection: what the remote tier and the peer tier share.
      {"sidecar/net/", {"shim/base/", "sidecar/base/"}, {}},
      {"sidecar/stats/", {"shim/base/", "shim/protocol/"}, {}},
      // Pure: no socket, no file, no clock, no thread.
      {"sidecar/store/",
       {"shim/base/", "shim/protocol/", "sidecar/stats/"},
       {"shim/protocol/packet.h", "shim/base/fd.h", "sidecar/base/", "sys/", "netinet/", "unistd.h",
        "fcntl.h", "poll.h", "fstream", "filesystem", "chrono", "ctime", "time.h", "thread",
        "mutex", "condition_variable", "random"}},
      // Pure as well; not even random.
      {"sidecar/sizing/",
       {"shim/base/status.h", "sidecar/stats/", "sidecar/store/adaptive.h"},
       kImpure},
      {"sidecar/tiers/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/stats/"},
       {"sidecar/tiers/remote/", "sidecar/tiers/peer/", "sidecar/tiers/plugin/"}},
      // Three floors, and each sees only the ones below: resp, then options.h and format.h, then
      // topology, then chunks.
      {"sidecar/tiers/remote/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/net/", "sidecar/tiers/tier.h",
        "sidecar/tiers/key_text.h", "sidecar/config/config.h"},
       {"sidecar/tiers/remote/topology/", "sidecar/tiers/remote/chunks/"}},
      {"sidecar/tiers/remote/resp/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/net/"},
       {}},
      {"sidecar/tiers/remote/topology/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/net/", "sidecar/tiers/tier.h",
        "sidecar/tiers/remote/"},
       {"sidecar/tiers/remote/chunks/"}},
      {"sidecar/tiers/remote/chunks/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/net/", "sidecar/tiers/command.h",
        "sidecar/tiers/tier.h", "sidecar/tiers/tier_front.h", "sidecar/tiers/network_tier.h",
        "sidecar/tiers/known_chunks.h", "sidecar/tiers/key_text.h", "sidecar/tiers/remote/"},
       {}},
      {"sidecar/tiers/peer/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/net/", "sidecar/tiers/command.h",
        "sidecar/tiers/tier.h", "sidecar/tiers/tier_front.h", "sidecar/tiers/network_tier.h",
        "sidecar/config/config.h"},
       {}},
      {"sidecar/tiers/plugin/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/net/", "sidecar/tiers/command.h",
        "sidecar/tiers/tier.h", "sidecar/tiers/tier_front.h", "sidecar/tiers/network_tier.h",
        "sidecar/tiers/known_chunks.h", "sidecar/tiers/key_text.h", "sidecar/config/config.h"},
       {}},
      // The one room of larderd that uses CUDA.
      {"sidecar/transfer/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "cuda/memory_import.h",
        "cuda/copy_engine.h"},
       {}},
      // The event loop and the three rooms under it: memory <- tiering <- session <- loop.
      {"sidecar/memory/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/store/",
        "sidecar/config/config.h"},
       {}},
      {"sidecar/tiering/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/stats/", "sidecar/store/",
        "sidecar/tiers/", "sidecar/memory/index_file.h", "sidecar/config/config.h"},
       {}},
      {"sidecar/session/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/stats/", "sidecar/sizing/",
        "sidecar/store/", "sidecar/tiering/", "sidecar/memory/", "sidecar/transfer/transfers.h",
        "sidecar/config/config.h"},
       {}},
      {"sidecar/loop/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/stats/", "sidecar/sizing/",
        "sidecar/store/", "sidecar/session/", "sidecar/tiering/", "sidecar/memory/",
        "sidecar/tiers/tier.h", "sidecar/transfer/transfers.h", "sidecar/config/config.h"},
       {}},
      {"sidecar/config/", {"shim/base/", "shim/protocol/"}, {}},
      {"sidecar/http/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/config/values.h"},
       {}},
      {"sidecar/pages/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/stats/", "sidecar/config/",
        "sidecar/http/"},
       {}},
      // larderctl and the operator ask and judge a backend alike.
      {"sidecar/backend_check/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/net/", "sidecar/config/config.h",
        "sidecar/tiers/remote/"},
       {"sidecar/tiers/remote/topology/links.h", "sidecar/tiers/remote/chunks/"}},
      {"sidecar/ctl/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/config/", "sidecar/sizing/",
        "sidecar/backend_check/", "sidecar/tiers/remote/options.h"},
       {}},
      // Pure: texts in, a configuration out.
      {"sidecar/ctl/lmcache/", {"shim/base/status.h", "sidecar/base/", "sidecar/config/"}, {}},
      {"sidecar/supervisor/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/http/answer.h"},
       {}},
      {"sidecar/app/", {"shim/base/", "shim/protocol/", "sidecar/"}, {}},
      // Pure: no network, time or environment.
      {"operator/api/", {"shim/base/status.h"}, kImpure},
      {"operator/desired/", {"shim/base/status.h", "operator/api/"}, kImpure},
      {"operator/webhook/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/http/", "sidecar/config/values.h",
        "operator/api/", "operator/desired/", "operator/k8s/", "operator/pki/"},
       {}},
      {"operator/webhook/inject/",
       {"shim/base/status.h", "operator/api/", "operator/desired/"},
       kImpure},
      {"operator/k8s/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/config/yaml_events.h",
        "operator/api/"},
       {}},
      {"operator/pki/", {"shim/base/status.h", "operator/api/"}, {}},
      {"operator/reconcile/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/config/loader.h",
        "sidecar/backend_check/installation_check.h",
        "sidecar/backend_check/installation_diagnostics.h", "operator/api/", "operator/desired/",
        "operator/k8s/", "operator/pki/"},
       {}},
      // kubectl's plug-in reads objects like the operator, and names differences of fingerprints
      // like larderd.
      {"operator/kubectl/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/config/values.h", "sidecar/ctl/",
        "sidecar/backend_check/", "sidecar/store/fingerprint_diff.h", "operator/api/names.h",
        "operator/api/object.h", "operator/reconcile/pod_view.h",
        "operator/reconcile/conditions.h"},
       {}},
      {"operator/app/",
       {"shim/base/", "shim/protocol/", "sidecar/base/", "sidecar/config/", "sidecar/http/",
        "operator/"},
       {}},
  };
  return all;
}

std::vector<std::string> check_source(std::string_view path, std::string_view text) {
  std::vector<std::string> wrong;
  const auto say = [&](std::size_t line, const std::string& why) {
    wrong.push_back(std::string(path) + ":" + std::to_string(line) + ": " + why);
  };
  const bool is_test = path.starts_with("tests/");
  const Room* room = room_of(path);
  if (room == nullptr && !is_test) say(1, "no room of the house (rules.cc lists them)");
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    constexpr std::string_view kInclude = "#include ";
    if (room == nullptr || !line.starts_with(kInclude) || line.size() < kInclude.size() + 3)
      continue;
    if (const std::string why = check_include(*room, path, line.substr(kInclude.size()));
        !why.empty())
      say(number, why);
  }
  if (number > kMostLines) say(number, "longer than " + std::to_string(kMostLines) + " lines");
  return wrong;
}

}  // namespace larder::house
