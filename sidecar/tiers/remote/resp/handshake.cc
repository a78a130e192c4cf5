#include "sidecar/tiers/remote/resp/handshake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "shim/base/fd.h"
#include "sidecar/tiers/remote/resp/error_reply.h"

namespace larder::remote {
namespace {

// The bound keeps a wrong path, for example a log file, out of memory and off the network.
constexpr std::size_t kMaxPasswordBytes = 4096;

}  // namespace

Result<std::string> read_password(const std::string& option, const std::string& path) {
  const std::string what = option + ": " + path;
  // O_NONBLOCK: the open of a pipe without a writer would stop the thread of the tier.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return Status::from_errno(errno, what);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return Status(Code::kFailedPrecondition, what + " is no file");
  // One byte more than allowed tells a long file from one of exactly the allowed length.
  std::string text(kMaxPasswordBytes + 1, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return Status::from_errno(errno, what);
  text.resize(static_cast<std::size_t>(got));
  if (text.size() > kMaxPasswordBytes)
    return Status(Code::kFailedPrecondition, what + " is too long");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty()) return Status(Code::kFailedPrecondition, what + " is empty");
  return text;
}

Status refusal_of(const Reply& hello) {
  if (hello.kind != Reply::Kind::kError) return {};
  // Neither the password nor the server's own words reach a log line: the replies are compared
  // with known texts, and the error has our words.
  if (hello.text.starts_with("ERR unknown command"))
    return {Code::kUnsupported,
            "the server does not know HELLO: Larder needs Redis 6.2 or newer, or Valkey"};
  if (hello.text.starts_with("ERR max number of clients"))
    return {Code::kResourceExhausted, "the server has reached maxclients"};
  return status_of(meaning_of(hello.text));
}

Status role_mismatch(Kind kind, std::string_view mode, std::string_view role) {
  // The mode comes first: a Sentinel and a node of a Cluster answer with roles of their own, which
  // mean something else.
  const bool cluster = mode == "cluster", sentinel = mode == "sentinel";
  const auto wrong = [](const std::string& text) {
    return Status(Code::kFailedPrecondition, text);
  };
  if (kind == Kind::kSentinel && !sentinel)
    return wrong(std::string("the server is no Sentinel but ") +
                 (cluster ? "a node of a Cluster: backend.url is redis-cluster://"
                          : "one that keeps data: backend.url is redis://"));
  if (kind == Kind::kSentinel) return {};
  if (sentinel)
    return wrong(
        "the server is a Sentinel, not one that keeps data: backend.url is redis-sentinel://");
  if (of_cluster(kind) && !cluster)
    return wrong(
        "the server is a standalone one, not a node of a Cluster: backend.url is redis://");
  if (kind == Kind::kReplica && role != "replica")
    return wrong("the server is no replica any more");
  if (of_cluster(kind)) return {};
  if (cluster)
    return wrong(
        "the server is a node of a Cluster, not a standalone one: backend.url is redis-cluster://");
  if (kind == Kind::kMaster && role != "master")
    // During a failover the Sentinels agree before the replica has its new role. MasterFollower
    // tries again.
    return wrong("whom the Sentinels name is a replica: no other is master yet");
  return {};
}

std::string_view map_field(const Reply& hello, std::string_view name) {
  // RESP2: a map is an array of names and values in turn.
  for (std::size_t i = 0; i + 1 < hello.elements.size(); i += 2)
    if (hello.elements[i].text == name) return hello.elements[i + 1].text;
  return "";
}

std::string_view info_value(std::string_view info, std::string_view name) {
  // With the end of the line before, so "run_id" does not find "other_run_id".
  const std::string line = "\n" + std::string(name) + ":";
  const std::size_t at = info.find(line);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = info.substr(at + line.size());
  return rest.substr(0, rest.find_first_of("\r\n"));
}

}  // namespace larder::remote
