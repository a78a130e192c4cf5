// A real redis-server or valkey-server of a test's own: a directory, a Unix socket inside, and no
// port unless requested. The server dies with the test.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/tiers/remote/resp/wire.h"

namespace larder::test {

// The program of that name from `make deps`; empty: missing.
std::string server_program(const std::string& name);

// A port without a listener just now.
std::uint16_t free_port();

class ServerProcess {
 public:
  // `name`: "redis-server" or "valkey-server". The server starts at once, without persistence.
  // `config`: the content of its file; empty: no file.
  explicit ServerProcess(const std::string& name, std::vector<std::string> arguments = {},
                         const std::string& config = "");
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& directory() const { return directory_; }
  std::string socket() const { return directory_ + "/server.sock"; }
  pid_t pid() const { return pid_; }

  void start();
  void signal(int number) const;
  void kill();  // SIGKILL; the server is gone
  // The raw answer to a raw command on a connection of its own, without TLS.
  remote::Reply ask(const std::vector<std::string>& words) const;
  // The value of this name in the server's answer to INFO of `section`.
  std::string info(const std::string& section, const std::string& name) const;

 private:
  std::string program_, directory_;
  std::vector<std::string> arguments_;
  pid_t pid_ = -1;
};

}  // namespace larder::test
