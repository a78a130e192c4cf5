// NetworkPlace: a network namespace of this machine, with a loopback. Needs root.
// Thread-compatible.
#pragma once

#include <functional>
#include <string>

#include "shim/base/fd.h"

namespace larder::test {

class NetworkPlace {
 public:
  // Throws if this machine does not allow namespaces.
  NetworkPlace();

  // The sockets, threads and processes that `work` makes stay in the namespace.
  void within(const std::function<void()>& work) const;
  // For `ip`, while this process lives.
  std::string path() const;

 private:
  Fd place_;
};

// Runs a command of the shell in the namespace of this thread. False: the command failed.
bool run_quietly(const std::string& command);

}  // namespace larder::test
