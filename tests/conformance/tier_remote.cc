// The remote tier for the conformance suite: a server of its own, or a Cluster. The oldest chunk
// has the least time to live, so that a server that evicts by time to live forgets the oldest.
#include "sidecar/tiers/remote/chunks/remote_tier.h"
#include "tests/component/cluster_processes.h"
#include "tests/component/server_process.h"
#include "tests/conformance/tier_under_test.h"

namespace larder::tiers::testing_support {
namespace {

std::vector<std::string> forgetting(const std::string& memory) {
  return {"--maxmemory", memory, "--maxmemory-policy", "volatile-ttl", "--maxmemory-samples", "20"};
}

class RemoteBox : public TierBox {
 public:
  RemoteBox() {
    options_.accepted_bytes = 16 << 20;
    options_.ttl_ms = 3'600'000;
  }
  std::unique_ptr<Tier> open() override {
    Result<std::unique_ptr<Tier>> tier = remote::open_remote_tier(clock, options_);
    return tier.ok() ? *std::move(tier) : nullptr;
  }
  bool survives_restart() const override { return true; }
  bool shared() const override { return true; }
  std::uint64_t most_slot_bytes() const override { return options_.accepted_bytes; }
  std::uint64_t accepted_bytes() const override { return options_.accepted_bytes; }

 protected:
  remote::RemoteOptions options_;
};

class ServerBox final : public RemoteBox {
 public:
  ServerBox(const std::string& server, std::uint32_t connections)
      : server_(server, forgetting("36mb")) {
    options_.unix_path = server_.socket();
    options_.connections = connections;
  }
  std::uint64_t capacity_chunks_of_1_mib() const override { return 32; }

 private:
  test::ServerProcess server_;
};

class ClusterBox final : public RemoteBox {
 public:
  // Chance decides the master of a part (its name has a random number): a dozen parts fit into any
  // one.
  explicit ClusterBox(const std::string& server)
      : cluster_(server, 3, 0, false, forgetting("24mb")) {
    options_.mode = remote::Mode::kCluster;
    options_.endpoints = cluster_.endpoints();
  }
  std::uint64_t capacity_chunks_of_1_mib() const override { return 64; }

 private:
  test::ClusterProcesses cluster_;
};

}  // namespace

std::unique_ptr<TierBox> make_remote_box(const std::string& server, std::uint32_t connections) {
  if (test::server_program(server).empty()) return nullptr;
  return std::make_unique<ServerBox>(server, connections);
}

std::unique_ptr<TierBox> make_cluster_box(const std::string& server) {
  if (test::server_program(server).empty()) return nullptr;
  return std::make_unique<ClusterBox>(server);
}

}  // namespace larder::tiers::testing_support
