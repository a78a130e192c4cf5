#include "tests/component/cluster_processes.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "sidecar/tiers/remote/topology/slots.h"
#include "tests/eventually.h"

namespace larder::test {
namespace {

constexpr const char* kHere = "127.0.0.1";

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool says(const remote::Reply& reply, const std::string& text) {
  return reply.text.find(text) != std::string::npos;
}

void must(bool happened, const char* what) {
  if (!happened) throw std::runtime_error(what);
}

}  // namespace

bool soon(const std::function<bool()>& happens, std::uint64_t ms) {
  return eventually(happens, static_cast<int>(ms), 5);
}

std::vector<std::string> listening(std::uint16_t port, const Certificates* tls) {
  if (tls == nullptr) return {"--port", std::to_string(port), "--bind", kHere};
  return {"--port",
          "0",
          "--tls-port",
          std::to_string(port),
          "--bind",
          kHere,
          "--tls-cert-file",
          tls->file("server.crt"),
          "--tls-key-file",
          tls->file("server.key"),
          "--tls-ca-cert-file",
          tls->file("ca.crt"),
          "--tls-auth-clients",
          "no",
          "--tls-replication",
          "yes",
          "--tls-cluster",
          "yes"};
}

ClusterProcesses::ClusterProcesses(const std::string& name, std::size_t masters, std::size_t spare,
                                   bool replicas, const std::vector<std::string>& arguments,
                                   const Certificates* tls)
    : masters_(masters), spare_(spare) {
  const std::size_t count = masters + spare + (replicas ? masters : 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t port = free_port(), bus = free_port();
    servers_.push_back(std::make_unique<ServerProcess>(
        name, with(with(listening(port, tls),
                        {"--cluster-enabled", "yes", "--cluster-port", std::to_string(bus),
                         "--cluster-node-timeout", replicas ? "1500" : "5000",
                         "--repl-diskless-sync-delay", "0"}),
                   arguments)));
    endpoints_.push_back({kHere, port});
    bus_ports_.push_back(bus);
  }
  join();
  for (std::size_t i = 0; replicas && i < masters; ++i) {
    const std::size_t replica = replica_of(i);
    must(soon([&] {
           return says(server(replica).ask({"CLUSTER", "REPLICATE", id(i)}), "OK");
         }),
         "no replica");
    must(soon([&] { return server(replica).info("replication", "master_link_status") == "up"; }),
         "no replication");
  }
  // All nodes have heard of all nodes.
  const std::size_t slaves = replicas ? masters : 0;
  must(soon([&] {
         for (const auto& server : servers_) {
           const std::string nodes = server->ask({"CLUSTER", "NODES"}).text;
           std::size_t found = 0;
           for (std::size_t at = nodes.find("slave"); at != std::string::npos;
                at = nodes.find("slave", at + 1))
             ++found;
           if (found != slaves) return false;
         }
         return well();
       }),
       "the Cluster did not come about");
}

void ClusterProcesses::join() {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    server(i).ask({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
    if (i < masters_)
      server(i).ask({"CLUSTER", "ADDSLOTSRANGE", std::to_string(i * remote::kSlots / masters_),
                     std::to_string((i + 1) * remote::kSlots / masters_ - 1)});
  }
  const std::string all = "cluster_known_nodes:" + std::to_string(servers_.size());
  const auto have_met = [&] {
    for (const auto& server : servers_) {
      const remote::Reply info = server->ask({"CLUSTER", "INFO"});
      // The state is ok with fewer nodes if full coverage is not required.
      if (!says(info, all) || !says(info, "cluster_slots_assigned:16384")) return false;
    }
    return well();
  };
  // On a busy machine nodes forget a meeting that does not end within their timeout.
  bool met = false;
  for (int tries = 0; tries < 6 && !met; ++tries) {
    for (std::size_t i = 1; i < servers_.size(); ++i)
      server(0).ask({"CLUSTER", "MEET", kHere, std::to_string(endpoints_[i].port),
                     std::to_string(bus_ports_[i])});
    met = soon(have_met, 10'000);
  }
  must(met, "the nodes did not meet");
}

bool ClusterProcesses::well() const {
  for (const auto& server : servers_)
    if (server->pid() > 0 && !says(server->ask({"CLUSTER", "INFO"}), "cluster_state:ok"))
      return false;
  return true;
}

std::uint64_t ClusterProcesses::keys(std::size_t number) const {
  std::uint64_t count = 0;
  for (const remote::Reply& key : servers_[number]->ask({"KEYS", "*"}).elements)
    count += key.text.find(":probe") == std::string::npos;
  return count;
}

std::uint64_t ClusterProcesses::keys() const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < masters_ + spare_; ++i) count += servers_[i]->pid() > 0 ? keys(i) : 0;
  return count;
}

std::string ClusterProcesses::id(std::size_t number) const {
  return servers_[number]->ask({"CLUSTER", "MYID"}).text;
}

void ClusterProcesses::begin_to_move(std::uint16_t slot, std::size_t from, std::size_t to) {
  server(to).ask({"CLUSTER", "SETSLOT", std::to_string(slot), "IMPORTING", id(from)});
  server(from).ask({"CLUSTER", "SETSLOT", std::to_string(slot), "MIGRATING", id(to)});
}

void ClusterProcesses::move_slot(std::uint16_t slot, std::size_t from, std::size_t to) {
  begin_to_move(slot, from, to);
  const std::string text = std::to_string(slot), target = id(to);
  for (;;) {
    const remote::Reply keys = server(from).ask({"CLUSTER", "GETKEYSINSLOT", text, "100"});
    if (keys.elements.empty()) break;
    for (const remote::Reply& key : keys.elements)
      server(from).ask({"MIGRATE", kHere, std::to_string(endpoints_[to].port), key.text, "0",
                        "5000", "REPLACE"});
  }
  server(to).ask({"CLUSTER", "SETSLOT", text, "NODE", target});
  server(from).ask({"CLUSTER", "SETSLOT", text, "NODE", target});
}

void ClusterProcesses::kill(std::size_t number) {
  server(number).kill();
}

SentinelProcesses::SentinelProcesses(const std::string& name,
                                     const std::vector<std::string>& arguments,
                                     const Certificates* tls) {
  for (std::size_t i = 0; i < 2; ++i) {
    ports_.push_back(free_port());
    std::vector<std::string> words =
        with(with(listening(ports_[i], tls), {"--repl-diskless-sync-delay", "0"}), arguments);
    if (i != 0) words = with(words, {"--replicaof", kHere, std::to_string(ports_[0])});
    servers_.push_back(std::make_unique<ServerProcess>(name, words));
  }
  must(soon([&] { return server(1).info("replication", "master_link_status") == "up"; }),
       "no replication");
  const std::string of = std::string(" ") + kMaster + " ";
  for (std::size_t i = 0; i < 3; ++i) {
    endpoints_.push_back({kHere, free_port()});
    sentinels_.push_back(std::make_unique<ServerProcess>(
        name, with({"--sentinel"}, listening(endpoints_[i].port, tls)),
        "sentinel monitor" + of + kHere + " " + std::to_string(ports_[0]) +
            " 2\nsentinel down-after-milliseconds" + of + "1000\nsentinel failover-timeout" + of +
            "3000\n"));
  }
  must(soon([&] {
         for (std::size_t i = 0; i < 3; ++i) {
           const std::string text = sentinel(i).ask({"INFO", "sentinel"}).text;
           if (text.find("slaves=1,sentinels=3") == std::string::npos) return false;
         }
         return true;
       }),
       "the Sentinels did not find each other");
}

std::uint16_t SentinelProcesses::named(std::size_t sentinel) const {
  const remote::Reply reply =
      sentinels_[sentinel]->ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", kMaster});
  return reply.elements.size() == 2 ? static_cast<std::uint16_t>(std::stoul(reply.elements[1].text))
                                    : 0;
}

}  // namespace larder::test
