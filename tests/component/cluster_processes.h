// Several real servers that belong together, on free ports of this machine: a Cluster, or a master
// with its replicas and Sentinels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sidecar/tiers/remote/options.h"
#include "tests/component/certificates.h"
#include "tests/component/server_process.h"

namespace larder::test {

// Whether the condition came true in time.
bool soon(const std::function<bool()>& happens, std::uint64_t ms = 60'000);

// The arguments of a server that listens at `port` of this machine. With certificates (ca, and
// server for 127.0.0.1): over TLS alone, and to others too; clients need no certificates.
std::vector<std::string> listening(std::uint16_t port, const Certificates* tls);

class ClusterProcesses {
 public:
  // The first `masters` share the slots evenly; then the given number of nodes without slots; then,
  // on request, a replica of each of the first. Throws if the nodes do not become a Cluster.
  ClusterProcesses(const std::string& name, std::size_t masters, std::size_t spare = 0,
                   bool replicas = false, const std::vector<std::string>& arguments = {},
                   const Certificates* tls = nullptr);

  ServerProcess& server(std::size_t number) { return *servers_[number]; }
  std::size_t replica_of(std::size_t number) const { return masters_ + spare_ + number; }
  const std::vector<remote::Endpoint>& endpoints() const { return endpoints_; }
  bool well() const;                             // as all living nodes see the Cluster
  std::uint64_t keys() const;                    // except those of probes, with all masters
  std::uint64_t keys(std::size_t number) const;  // with this one
  void begin_to_move(std::uint16_t slot, std::size_t from, std::size_t to);
  // with its keys, one by one
  void move_slot(std::uint16_t slot, std::size_t from, std::size_t to);
  void kill(std::size_t number);

 private:
  std::string id(std::size_t number) const;
  void join();

  std::size_t masters_, spare_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<remote::Endpoint> endpoints_;
  std::vector<std::uint16_t> bus_ports_;
};

class SentinelProcesses {
 public:
  static constexpr const char* kMaster = "pool";
  // A master, a replica and three Sentinels, of which two must agree.
  explicit SentinelProcesses(const std::string& name,
                             const std::vector<std::string>& arguments = {},
                             const Certificates* tls = nullptr);

  ServerProcess& server(std::size_t number) { return *servers_[number]; }
  ServerProcess& sentinel(std::size_t number) { return *sentinels_[number]; }
  std::vector<remote::Endpoint> endpoints() const { return endpoints_; }  // of the Sentinels
  std::uint16_t port(std::size_t number) const { return ports_[number]; }
  // Whom that Sentinel names.
  std::uint16_t named(std::size_t sentinel) const;

 private:
  std::vector<std::unique_ptr<ServerProcess>> servers_, sentinels_;
  std::vector<std::uint16_t> ports_;
  std::vector<remote::Endpoint> endpoints_;
};

}  // namespace larder::test
