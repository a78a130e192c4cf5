// TrickleProxy: a proxy in front of a server's Unix socket. Answers pass at once, or at a byte a
// second on each connection.
//
// A process of its own. REQUIRES: made before the caller has threads. Ends on destruction.
// Thread-compatible.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tests/bench/child.h"

namespace larder::bench {

class TrickleProxy {
 public:
  // Listens at `path` after return. Throws on failure.
  TrickleProxy(const std::string& path, const std::string& server);
  ~TrickleProxy();
  TrickleProxy(const TrickleProxy&) = delete;
  TrickleProxy& operator=(const TrickleProxy&) = delete;

  // Requests always pass at once.
  void trickle(bool on) { *slow_ = on; }

 private:
  std::atomic<bool>* slow_;  // shared with the process
  std::unique_ptr<Child> process_;
};

}  // namespace larder::bench
