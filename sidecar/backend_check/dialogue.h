// Dialogue: one connection to one server, for a program that has nothing else to do: each step waits for its end, up to a deadline or
// until it is told to stop (kUnavailable).
// Not for larderd, which waits for no server. Owned by one thread, which has SIGPIPE blocked or ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/base/clock.h"
#include "sidecar/base/stop_fd.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/connection.h"

namespace larder::backend_check {

class Dialogue {
 public:
  struct Waiting {  // by what; both outlive the dialogue
    const base::Clock& clock;
    const base::StopFd& stop;
  };

  // Resolves, connects, and over TLS shakes hands; nothing is said yet. Tries each address of a name; the last one's failure is told.
  static Result<std::unique_ptr<Dialogue>> open(const remote::TlsOptions& tls, const remote::Endpoint& endpoint,
                                                const Waiting& waiting, std::uint64_t deadline_ns);

  Dialogue(std::unique_ptr<remote::Stream> stream, const Waiting& waiting, bool local);

  // All at once, answered in their order. Not ok: no answer to some came by then, and none comes any more to anything.
  Status run(std::vector<remote::Request> requests, std::uint64_t deadline_ns);
  // One command and its reply, of one of these types or an error.
  Result<remote::Reply> ask(std::span<const std::string_view> words, std::string_view types, std::uint64_t deadline_ns);

  bool local() const { return local_; }  // the server is on this machine

 private:
  remote::Connection connection_;
  const Waiting waiting_;
  const bool local_;
  Status over_;
};

}  // namespace larder::backend_check
