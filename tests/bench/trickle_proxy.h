// TrickleProxy: stands before a server's Unix socket, and lets its answers pass as they come, or a byte a second on each connection.
//
// A process of its own, made before its maker has threads; ended with this object. Thread-compatible.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tests/bench/child.h"

namespace larder::bench {

class TrickleProxy {
 public:
  // Listens at `path` when this returns. Throws where it cannot.
  TrickleProxy(const std::string& path, const std::string& server);
  ~TrickleProxy();
  TrickleProxy(const TrickleProxy&) = delete;
  TrickleProxy& operator=(const TrickleProxy&) = delete;

  // What was asked passes unhindered all the same.
  void trickle(bool on) { *slow_ = on; }

 private:
  std::atomic<bool>* slow_;  // shared with the process
  std::unique_ptr<Child> process_;
};

}  // namespace larder::bench
