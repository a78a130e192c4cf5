// Promotions and probes over a store in plain memory and two tiers in the hands of the test. A
// family has two chunks, of two shards.
#pragma once

#include <array>
#include <map>

#include "sidecar/tiering/promoter.h"
#include "sidecar/tiering/tier_probe.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/unit/tiering/held_tier.h"

namespace larder::tiering::testing_support {

class PromoterBox {
 public:
  static constexpr std::uint64_t kSlotBytes = store::testing_support::StoreBox::kSlotBytes;

  // `second`: the kind of the tier `backend`.
  explicit PromoterBox(std::uint64_t slots, TierKind second = TierKind::kBackend)
      : memory(slots),
        below(*ResidencyFilter::create(1 << 30)),
        source(link, *below, clock),
        backend_link(second, std::make_unique<HeldTier>(), "held://backend"),
        backend_region(*ResidencyFilter::create(0)),
        backend_source(backend_link, *backend_region, clock),
        promotions(sources, memory.store(), memory.stats(), clock,
                   std::span(memory.arena(), slots * kSlotBytes)),
        probes(shared, sources, promotions, memory.store(), memory.stats(), clock) {}

  tiers::ChunkKey chunk(const protocol::Key& key) {
    return {memory.store().namespaces().at(key.namespace_handle).spec.id, key.hash, key.shard,
            key.group};
  }
  std::vector<protocol::Key> family(std::uint64_t n) const {
    return {memory.key(n), memory.sibling(n)};
  }
  // Every byte of the family's chunks is its number.
  void put_below(std::uint64_t n) {
    for (const protocol::Key& key : family(n)) put_into(tier, *below, key, n);
  }
  // There, and known here, as after a look.
  void put_into_backend(std::uint64_t n) {
    for (const protocol::Key& key : family(n)) put_into(backend, *backend_region, key, n);
  }
  void put_into(HeldTier& where, ResidencyFilter& region, const protocol::Key& key,
                std::uint64_t n) {
    where.store(chunk(key), {n, 4096, 4096, n},
                std::vector<std::byte>(kSlotBytes, static_cast<std::byte>(n)));
    region.added(chunk(key));
  }
  void fetch(std::uint32_t request, const std::vector<std::uint64_t>& numbers,
             std::uint32_t deadline_ms = 1000, store::SessionNumber session = 1) {
    std::vector<protocol::BlockHash> hashes;
    for (const std::uint64_t n : numbers) hashes.push_back(memory.key(n).hash);
    const protocol::Fetch asked{memory.handle(), deadline_ms,
                                static_cast<std::uint32_t>(hashes.size()), 0};
    EXPECT_TRUE(promotions.fetch(session, request, asked, hashes).ok());
    turn();
  }
  // As the loop's.
  void turn() {
    for (HeldTier* one : {&tier, &backend}) {
      std::vector<tiers::Message> messages;
      one->take_messages(messages);
      for (const tiers::Message& message : messages) {
        if (message.operation == tiers::Operation::kProbe)
          probes.on_probe(message);
        else
          EXPECT_TRUE(promotions.on_get(message));
      }
    }
    while (promotions.go_on() || probes.go_on()) {
    }
    promotions.miss_deadlines();
    probes.miss_deadlines();
    for (const TierProbes::Answer& answer : probes.take_answers()) {
      EXPECT_FALSE(probed_.contains({answer.session, answer.request})) << "answered twice";
      probed_[{answer.session, answer.request}] = answer.probed;
      each_[{answer.session, answer.request}] = answer.each;
    }
    for (const Promoter::Answer& answer : promotions.take_answers()) {
      EXPECT_FALSE(answers_.contains({answer.session, answer.request})) << "answered twice";
      answers_[{answer.session, answer.request}] = answer.fetched;
    }
  }
  void finish_reads() {
    while (!tier.waiting().empty() || !backend.waiting().empty()) {
      tier.finish_all();
      backend.finish_all();
      turn();
    }
  }
  void probe(std::uint32_t request, const std::vector<std::uint64_t>& numbers,
             std::uint32_t deadline_ms = 1000, store::SessionNumber session = 1) {
    EXPECT_TRUE(try_probe(request, numbers, deadline_ms, session).ok());
    turn();
  }
  // With kProbeEach.
  void probe_each(std::uint32_t request, const std::vector<std::uint64_t>& numbers,
                  std::uint32_t deadline_ms = 1000) {
    EXPECT_TRUE(try_probe(request, numbers, deadline_ms, 1, protocol::kProbeEach).ok());
    turn();
  }
  // The places of the families that an answer tells of.
  std::vector<std::size_t> each(std::uint32_t request) const {
    const auto found = each_.find({1, request});
    std::vector<std::size_t> places;
    if (found == each_.end() || !found->second) return places;
    for (std::size_t i = 0; i < protocol::kMaxKeysPerProbe; ++i)
      if ((found->second->there[i / 64] >> i % 64 & 1) != 0) places.push_back(i);
    return places;
  }
  bool tells_each(std::uint32_t request) const { return each_.at({1, request}).has_value(); }
  Status try_probe(std::uint32_t request, const std::vector<std::uint64_t>& numbers,
                   std::uint32_t deadline_ms, store::SessionNumber session,
                   std::uint32_t flags = 0) {
    std::vector<protocol::BlockHash> hashes;
    for (const std::uint64_t n : numbers) hashes.push_back(memory.key(n).hash);
    return probes.probe(
        session, request,
        {memory.handle(), deadline_ms, static_cast<std::uint32_t>(hashes.size()), flags}, hashes);
  }
  void finish_probe(Status status = {}) {
    backend.finish_probe(std::move(status));
    turn();
  }
  std::optional<protocol::Probed> probed(std::uint32_t request,
                                         store::SessionNumber session = 1) const {
    const auto found = probed_.find({session, request});
    return found == probed_.end() ? std::nullopt : std::optional(found->second);
  }
  // As one line: families, families in the backend, the reason for no more.
  std::string told_of_probe(std::uint32_t request, store::SessionNumber session = 1) const {
    const std::optional<protocol::Probed> probed = this->probed(request, session);
    if (!probed) return "nothing";
    static constexpr std::string_view kReasons[] = {"all", "late", "failed", "bound"};
    return std::to_string(probed->families) + " " + std::to_string(probed->shared) + " " +
           std::string(kReasons[probed->reason]);
  }
  std::optional<protocol::Fetched> answer(std::uint32_t request,
                                          store::SessionNumber session = 1) const {
    const auto found = answers_.find({session, request});
    return found == answers_.end() ? std::nullopt : std::optional(found->second);
  }
  // As one line: families and why there are no more.
  std::string told(std::uint32_t request, store::SessionNumber session = 1) const {
    const std::optional<protocol::Fetched> fetched = answer(request, session);
    if (!fetched) return "nothing";
    static constexpr std::string_view kReasons[] = {"all",     "absent", "late",
                                                    "no room", "failed", "bound"};
    return std::to_string(fetched->families) + " " + std::string(kReasons[fetched->reason]);
  }
  bool in_memory(std::uint64_t n) const {
    for (const protocol::Key& key : family(n))
      if (!memory.has(key)) return false;
    return true;
  }
  // Grants that a stranger gets out of so many asked for: how much may be evicted.
  std::uint64_t grants(std::uint64_t asked) {
    std::uint64_t granted = 0;
    for (std::uint64_t i = 0; i < asked; ++i)
      granted += memory.reserve(stranger_, next_stranger_++).status == 0;
    return granted;
  }
  void add_stranger(store::SessionNumber number) {
    stranger_ = number;
    memory.add_session(number);
  }

  TierLink link{TierKind::kDisk, std::make_unique<HeldTier>(), "/held"};
  HeldTier& tier = static_cast<HeldTier&>(link.tier());
  base::ManualClock clock;
  store::testing_support::StoreBox memory;
  std::shared_ptr<ResidencyFilter> below;
  ReadableTier source;
  TierLink backend_link;
  HeldTier& backend = static_cast<HeldTier&>(backend_link.tier());
  std::shared_ptr<ResidencyFilter> backend_region;
  ReadableTier backend_source;
  const std::array<ReadableTier*, 2> sources{&source, &backend_source};
  const std::array<SharedTier, 1> shared{{{&backend_link, &backend_source}}};
  Promoter promotions;
  TierProbes probes;

 private:
  store::SessionNumber stranger_ = 0;
  std::uint64_t next_stranger_ = 1'000'000;
  std::map<std::pair<store::SessionNumber, std::uint32_t>, protocol::Fetched> answers_;
  std::map<std::pair<store::SessionNumber, std::uint32_t>, protocol::Probed> probed_;
  std::map<std::pair<store::SessionNumber, std::uint32_t>, std::optional<protocol::ProbedEach>>
      each_;
};

}  // namespace larder::tiering::testing_support
