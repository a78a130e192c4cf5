// A real redis-server or valkey-server of a test's own: a directory, a Unix socket in it, and no port unless asked for. It dies
// with the test.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/tiers/remote/resp/wire.h"

namespace larder::test {

// The program of that name, as `make deps` has put it there; empty: it has not.
std::string server_program(const std::string& name);

// One that nobody listens at just now.
std::uint16_t free_port();

class ServerProcess {
 public:
  // `name`: "redis-server" or "valkey-server". It starts at once, without persistence. `config`: what stands in its file; none
  // where it is empty.
  explicit ServerProcess(const std::string& name, std::vector<std::string> arguments = {}, const std::string& config = "");
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& directory() const { return directory_; }
  std::string socket() const { return directory_ + "/server.sock"; }
  pid_t pid() const { return pid_; }

  void start();
  void signal(int number) const;
  void kill();  // SIGKILL, and it is gone
  // As it is sent and answered on a connection of its own, without TLS.
  remote::Reply ask(const std::vector<std::string>& words) const;
  // What INFO says under that name, of the server's answer to INFO of `section`.
  std::string info(const std::string& section, const std::string& name) const;

 private:
  std::string program_, directory_;
  std::vector<std::string> arguments_;
  pid_t pid_ = -1;
};

}  // namespace larder::test
