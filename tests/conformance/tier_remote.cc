// The remote tier for the conformance suite: a server of its own. What is put oldest has the least time to live, so that a server which
// evicts by that forgets the oldest.
#include "sidecar/tiers/remote/remote_tier.h"
#include "tests/component/server_process.h"
#include "tests/conformance/tier_under_test.h"

namespace larder::tiers::testing_support {
namespace {

class RemoteBox final : public TierBox {
 public:
  RemoteBox(const std::string& server, std::uint32_t connections)
      : server_(server, {"--maxmemory", "36mb", "--maxmemory-policy", "volatile-ttl", "--maxmemory-samples", "20"}) {
    options_.unix_path = server_.socket();
    options_.accepted_bytes = 16 << 20;
    options_.ttl_ms = 3'600'000;
    options_.connections = connections;
  }
  std::unique_ptr<Tier> open() override {
    Result<std::unique_ptr<Tier>> tier = remote::open_remote_tier(clock, options_);
    return tier.ok() ? *std::move(tier) : nullptr;
  }
  bool survives_restart() const override { return true; }
  bool shared() const override { return true; }
  std::uint64_t most_slot_bytes() const override { return options_.accepted_bytes; }
  std::uint64_t accepted_bytes() const override { return options_.accepted_bytes; }
  std::uint64_t capacity_chunks_of_1_mib() const override { return 32; }

 private:
  test::ServerProcess server_;
  remote::RemoteOptions options_;
};

}  // namespace

std::unique_ptr<TierBox> make_remote_box(const std::string& server, std::uint32_t connections) {
  if (test::server_program(server).empty()) return nullptr;
  return std::make_unique<RemoteBox>(server, connections);
}

}  // namespace larder::tiers::testing_support
