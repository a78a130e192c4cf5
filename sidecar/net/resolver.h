// Resolver: the addresses of a host name. Names are resolved on a separate thread, because the
// resolver of the system may wait without limit; addresses and paths need no thread. Owned by one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/net/endpoint.h"
#include "sidecar/net/stream.h"

namespace larder::net {

class Resolver {
 public:
  // The resolver writes to `ready_fd`, an eventfd, once the addresses are known.
  Resolver(Endpoint endpoint, const Fd& ready_fd);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // The addresses, once known. Starts a question if none is open, so at most one thread hangs.
  std::optional<Result<std::vector<Address>>> poll();

 private:
  struct Question;
  const Endpoint endpoint_;
  const Fd& ready_fd_;
  std::shared_ptr<Question> question_;  // shared with the thread, which may outlive this object
};

}  // namespace larder::net
