#include "sidecar/tiers/plugin/plugin_tier.h"

#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/tiers/key_text.h"
#include "sidecar/tiers/network_tier.h"
#include "sidecar/tiers/plugin/plugin_engine.h"

namespace larder::plugin {
namespace {

using tiers::TierFront;

constexpr std::size_t kMostProbes = 16;  // at once: a probe has up to 1,024 keys
constexpr std::uint64_t kLeastRegionBytes = 32ULL << 20;

Status too_large(std::uint64_t slot_bytes, std::uint64_t most_bytes) {
  // Half of the region at most: the other half is for pieces beyond their deadlines.
  return {Code::kOutOfRange, "a chunk of " + base::mib(slot_bytes) +
                                 " is more than the plug-in is given at once (" +
                                 base::mib(most_bytes) +
                                 "): set backend.plugin_region larger, or chunk_tokens smaller"};
}

constexpr TierFront::Words kWords{"the backend is closed",
                                  "too many operations on their way to and from the plug-in",
                                  "too many to evict from the service at once", too_large};

Status check_options(const PluginOptions& options) {
  if (!tiers::valid_prefix(options.prefix))
    return {Code::kInvalidArgument,
            "backend.prefix: 1 to 127 letters, digits, \"_\", \".\" and \"-\""};
  if (options.region_bytes < kLeastRegionBytes ||
      options.region_bytes % protocol::kSlotAlignBytes != 0)
    return {Code::kInvalidArgument, "backend.plugin_region: at least 32 MiB, and whole pages"};
  if (options.patience_ms == 0)
    return {Code::kInvalidArgument, "backend.plugin_patience: 0 would end each plug-in at once"};
  return {};
}

// Outlives the engine.
struct PluginState {
  explicit PluginState(const PluginOptions& from)
      : options(from), known(options.known_chunks, options.residents.get()) {}
  const PluginOptions options;
  KnownChunks known;
  Layouts layouts;
};

class PluginTier final : PluginState, public tiers::NetworkTier<PluginEngine> {
 public:
  PluginTier(const base::Clock& clock, const PluginOptions& from)
      : PluginState(from),
        NetworkTier(clock, "larder-plugin",
                    {.bytes = options.accepted_bytes(),
                     .operations = options.accepted_operations,
                     .probes = kMostProbes,
                     .drops = Drops::kMost,
                     .evictions = Removals::kMost},
                    kWords, clock, options, known, layouts) {}

  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    const std::optional<Chunk> chunk = known.find(key, clock().now_ns());
    return chunk ? std::optional(chunk->facts) : std::nullopt;
  }
  using NetworkTier::probe;
  void expect(const tiers::ChunkKey& key, std::uint64_t payload_bytes,
              std::uint64_t piece_bytes) override {
    layouts.insert(key, payload_bytes, piece_bytes);
  }

 private:
  void hide(const tiers::Command& command) override {
    command.operation == tiers::Operation::kDrop ? known.hide(command.key.namespace_id)
                                                 : known.hide_all();
  }
};

}  // namespace

Result<std::unique_ptr<tiers::Tier>> open_plugin_tier(const base::Clock& clock,
                                                      const PluginOptions& options) {
  if (Status status = check_options(options); !status.ok()) return status;
  auto tier = std::make_unique<PluginTier>(clock, options);
  if (Status status = tier->start(); !status.ok()) return status;
  return std::unique_ptr<tiers::Tier>(std::move(tier));
}

}  // namespace larder::plugin
