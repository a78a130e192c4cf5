#include "sidecar/tiers/peer/peer_tier.h"

#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/net/tls_stream.h"
#include "sidecar/tiers/network_tier.h"
#include "sidecar/tiers/peer/peer_engine.h"

namespace larder::peer {
namespace {

using tiers::Ticket;
using tiers::TierFront;

constexpr std::size_t kMostProbes = 64;

Status too_large(std::uint64_t slot_bytes, std::uint64_t most_bytes) {
  return {Code::kOutOfRange, "a chunk of " + base::mib(slot_bytes) +
                                 " is more than is read from peers at once (" +
                                 base::mib(most_bytes) + "): set chunk_tokens smaller"};
}

constexpr TierFront::Words kWords{"the peer tier is closed", "too much on its way from peers",
                                  "too many to evict at once", too_large};

// Outlives the engine.
struct PeerState {
  explicit PeerState(const ClientOptions& from) : options(from), offers(options.known_chunks) {}
  const ClientOptions options;
  Offers offers;
};

// The tier is only read: it forgets an offer at once, and its thread hears of no forget and no
// eviction. The thread forgets a drop once more, because an answer may come in between.
class PeerTier final : PeerState, public tiers::NetworkTier<PeerEngine> {
 public:
  PeerTier(const base::Clock& clock, const ClientOptions& from)
      : PeerState(from),
        NetworkTier(clock, "larder-peers",
                    {.bytes = options.accepted_bytes,
                     .operations = options.accepted_operations,
                     .probes = kMostProbes},
                    kWords, options, clock, offers) {}

  Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id,
                        std::uint64_t deadline_ns) override {
    offers.erase_namespace(id);  // mutation: peer-drop
    return NetworkTier::drop_namespace(ticket, id, deadline_ns);
  }
  Status clear(Ticket ticket, std::uint64_t deadline_ns) override {
    offers.erase_namespace({});
    return NetworkTier::clear(ticket, deadline_ns);
  }
  // Answered from the offers alone, without a question to a peer: the loop calls this and must not
  // wait.
  std::optional<tiers::ChunkFacts> probe(const tiers::ChunkKey& key) const override {
    const std::optional<Offer> offer = offers.find(key, clock().now_ns());
    return offer ? std::optional(offer->facts) : std::nullopt;
  }
  using NetworkTier::probe;
  std::uint32_t device(const tiers::ChunkKey& key) const override {
    const std::optional<Offer> offer = offers.find(key, clock().now_ns());
    // Each member is a device: a member that stands still delays only reads of its own chunks.
    return offer ? static_cast<std::uint32_t>(offer->member % tiers::kMaxDevices) : 0;
  }
  void forget(const tiers::ChunkKey& key, std::uint64_t generation) override {
    offers.erase(key, generation);
  }
  Status evict(const tiers::ChunkKey& key) override {
    offers.erase(key);
    // An eviction here frees no memory of a peer. Each larderd evicts its own chunks by its own
    // use.
    return closed() ? Status(Code::kUnavailable, std::string(kWords.closed)) : Status();
  }
};

}  // namespace

Result<std::unique_ptr<tiers::Tier>> open_peer_tier(const base::Clock& clock,
                                                    const ClientOptions& options) {
  if (options.members.empty())
    return Status(Code::kInvalidArgument, "peers.members: host:port,... or dns:NAME:PORT");
  if (options.tls.enabled)
    if (Status status = net::check_tls_files(options.tls); !status.ok()) return status;
  auto tier = std::make_unique<PeerTier>(clock, options);
  if (Status status = tier->start(); !status.ok()) return status;
  return std::unique_ptr<tiers::Tier>(std::move(tier));
}

}  // namespace larder::peer
