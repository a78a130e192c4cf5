// Dialogue: one blocking connection to one server. Each call waits until its end, its deadline or a
// stop (kUnavailable). larderd never waits for a server, and drives a Connection from its own
// thread of the tier. Owned by one thread, which has SIGPIPE blocked or ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/base/clock.h"
#include "sidecar/base/stop_fd.h"
#include "sidecar/net/connection.h"
#include "sidecar/tiers/remote/options.h"

namespace larder::backend_check {

class Dialogue {
 public:
  struct Waiting {  // both members outlive the dialogue
    const base::Clock& clock;
    const base::StopFd& stop;
  };

  // Resolves the name, connects and, with TLS, completes the TLS handshake. Sends no command. Tries
  // each address of the name; an error is the failure of the last address.
  static Result<std::unique_ptr<Dialogue>> open(const remote::TlsOptions& tls,
                                                const remote::Endpoint& endpoint,
                                                const Waiting& waiting, std::uint64_t deadline_ns);

  Dialogue(std::unique_ptr<remote::Stream> stream, const Waiting& waiting, bool local);

  // Sends all requests at once; replies come in the order of the requests. After an error the
  // dialogue is over: later calls fail with the same error.
  Status run(std::vector<remote::Request> requests, std::uint64_t deadline_ns);
  // One command and its reply: one of `types`, or an error reply.
  Result<remote::Reply> ask(std::span<const std::string_view> words, std::string_view types,
                            std::uint64_t deadline_ns);

  bool local() const { return local_; }  // the server is on this machine

 private:
  remote::Connection connection_;
  const Waiting waiting_;
  const bool local_;
  Status over_;
};

}  // namespace larder::backend_check
