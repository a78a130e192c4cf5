// Resolver: a host's name to addresses. Names are asked for by a thread of their own, since the system's resolver waits as long as
// it likes; addresses and paths need none. Owned by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/stream.h"

namespace larder::remote {

class Resolver {
 public:
  // `ready_fd`, an eventfd, is written to when an answer is there.
  Resolver(Endpoint endpoint, const Fd& ready_fd);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // The addresses, once asked for and there. Asks where nothing is on its way; a thread that hangs is asked nothing more.
  std::optional<Result<std::vector<Address>>> poll();

 private:
  struct Question;
  const Endpoint endpoint_;
  const Fd& ready_fd_;
  std::shared_ptr<Question> question_;  // shared with the thread, which may outlive us
};

}  // namespace larder::remote
