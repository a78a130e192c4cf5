// The plug-in tier for the conformance suite: the example plug-in, a process of its own for each
// open tier, over one folder.
#include <gtest/gtest.h>
#include <signal.h>

#include "sidecar/tiers/plugin/plugin_tier.h"
#include "tests/component/plugin_process.h"
#include "tests/conformance/tier_under_test.h"

namespace larder::tiers::testing_support {
namespace {

constexpr std::uint64_t kChunks = 32;

// Ends its plug-in after itself.
class TierWithPlugin final : public Tier {
 public:
  TierWithPlugin(std::unique_ptr<Tier> tier, std::unique_ptr<test::PluginProcess> plugin)
      : plugin_(std::move(plugin)), tier_(std::move(tier)) {}
  Status put(Ticket ticket, const ChunkKey& key, const ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t deadline_ns) override {
    return tier_->put(ticket, key, facts, slot, deadline_ns);
  }
  Status takes(std::uint64_t bytes) const override { return tier_->takes(bytes); }
  Status get(Ticket ticket, const ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t deadline_ns) override {
    return tier_->get(ticket, key, slot, deadline_ns);
  }
  Status probe(Ticket ticket, std::span<const ChunkKey> keys, std::uint64_t deadline_ns) override {
    return tier_->probe(ticket, keys, deadline_ns);
  }
  void expect(const ChunkKey& key, std::uint64_t payload, std::uint64_t piece) override {
    tier_->expect(key, payload, piece);
  }
  Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id,
                        std::uint64_t deadline_ns) override {
    return tier_->drop_namespace(ticket, id, deadline_ns);
  }
  Status clear(Ticket ticket, std::uint64_t deadline_ns) override {
    return tier_->clear(ticket, deadline_ns);
  }
  Status flush(Ticket ticket, std::uint64_t deadline_ns) override {
    return tier_->flush(ticket, deadline_ns);
  }
  std::optional<ChunkFacts> probe(const ChunkKey& key) const override { return tier_->probe(key); }
  void forget(const ChunkKey& key, std::uint64_t generation) override {
    tier_->forget(key, generation);
  }
  Status evict(const ChunkKey& key) override { return tier_->evict(key); }
  int message_fd() const override { return tier_->message_fd(); }
  void take_messages(std::vector<Message>& out) override { tier_->take_messages(out); }
  TierState state() const override { return tier_->state(); }
  TierCounters counters() const override { return tier_->counters(); }
  bool close(std::uint64_t grace_ms) override { return tier_->close(grace_ms); }

 private:
  std::unique_ptr<test::PluginProcess> plugin_;  // destroyed last
  std::unique_ptr<Tier> tier_;
};

class PluginBox final : public TierBox {
 public:
  PluginBox() {
    options_.url = "plugin://files";
    options_.region_bytes = 32 << 20;
  }
  std::unique_ptr<Tier> open() override {
    plugin::PluginOptions options = options_;
    options.socket = folder_.path() + "/" + std::to_string(++opened_) + ".plugin";
    Result<std::unique_ptr<Tier>> tier = plugin::open_plugin_tier(clock, options);
    if (!tier.ok()) return nullptr;
    // A chunk of 1 MiB has a page for the digests; its object has a record.
    auto plugin = std::make_unique<test::PluginProcess>(options.socket, folder_.path() + "/objects",
                                                        kChunks * ((1 << 20) + 4096 + 128));
    if (!test::ready(**tier)) return nullptr;
    return std::make_unique<TierWithPlugin>(*std::move(tier), std::move(plugin));
  }
  bool survives_restart() const override { return true; }
  bool shared() const override { return true; }
  bool probes_tell_facts() const override { return false; }
  std::uint64_t most_slot_bytes() const override { return options_.accepted_bytes(); }
  std::uint64_t accepted_bytes() const override { return options_.accepted_bytes(); }
  std::uint64_t capacity_chunks_of_1_mib() const override { return kChunks; }

 private:
  test::TemporaryFolder folder_;
  plugin::PluginOptions options_;
  int opened_ = 0;
};

}  // namespace

std::unique_ptr<TierBox> make_plugin_box() {
  return std::make_unique<PluginBox>();
}

}  // namespace larder::tiers::testing_support
