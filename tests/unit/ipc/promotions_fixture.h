// Promotions over a store in plain memory and a tier in the hands of the test. A family has two chunks, of two shards.
#pragma once

#include <array>
#include <map>

#include "sidecar/ipc/promotions.h"
#include "tests/unit/ipc/held_tier.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::ipc::testing_support {

class PromotionsBox {
 public:
  static constexpr std::uint64_t kSlotBytes = store::testing_support::StoreBox::kSlotBytes;

  explicit PromotionsBox(std::uint64_t slots)
      : memory(slots),
        below(*BelowRegion::create(1 << 30)),
        source(link, *below, clock),
        promotions(std::array<ReadSource*, 1>{&source}, memory.store(), memory.stats(), clock,
                   std::span(memory.arena(), slots * kSlotBytes)) {}

  tiers::ChunkKey chunk(const protocol::Key& key) {
    return {memory.store().namespaces().at(key.namespace_handle).spec.id, key.hash, key.shard, key.group};
  }
  std::vector<protocol::Key> family(std::uint64_t n) const { return {memory.key(n), memory.sibling(n)}; }
  // Every chunk of the family is full of its number.
  void put_below(std::uint64_t n) {
    for (const protocol::Key& key : family(n)) {
      const tiers::ChunkFacts facts{n, 4096, 4096, n};
      tier.store(chunk(key), facts, std::vector<std::byte>(kSlotBytes, static_cast<std::byte>(n)));
      below->added(chunk(key));
    }
  }
  void fetch(std::uint32_t request, const std::vector<std::uint64_t>& numbers, std::uint32_t deadline_ms = 1000,
             store::SessionNumber session = 1) {
    std::vector<protocol::BlockHash> hashes;
    for (const std::uint64_t n : numbers) hashes.push_back(memory.key(n).hash);
    const protocol::Fetch asked{memory.handle(), deadline_ms, static_cast<std::uint32_t>(hashes.size()), 0};
    EXPECT_TRUE(promotions.fetch(session, request, asked, hashes).ok());
    turn();
  }
  // As the loop's.
  void turn() {
    std::vector<tiers::Message> messages;
    tier.take_messages(messages);
    for (const tiers::Message& message : messages) EXPECT_TRUE(promotions.on_get(message));
    while (promotions.go_on()) {
    }
    promotions.miss_deadlines();
    for (const Promotions::Answer& answer : promotions.take_answers()) {
      EXPECT_FALSE(answers_.contains({answer.session, answer.request})) << "answered twice";
      answers_[{answer.session, answer.request}] = answer.fetched;
    }
  }
  void finish_reads() {
    while (!tier.waiting().empty()) {
      tier.finish_all();
      turn();
    }
  }
  std::optional<protocol::Fetched> answer(std::uint32_t request, store::SessionNumber session = 1) const {
    const auto found = answers_.find({session, request});
    return found == answers_.end() ? std::nullopt : std::optional(found->second);
  }
  // As one line: families and why there are no more.
  std::string told(std::uint32_t request, store::SessionNumber session = 1) const {
    const std::optional<protocol::Fetched> fetched = answer(request, session);
    if (!fetched) return "nothing";
    static constexpr std::string_view kReasons[] = {"all", "absent", "late", "no room", "failed", "bound"};
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
    for (std::uint64_t i = 0; i < asked; ++i) granted += memory.reserve(stranger_, next_stranger_++).status == 0;
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
  std::shared_ptr<BelowRegion> below;
  ReadSource source;
  Promotions promotions;

 private:
  store::SessionNumber stranger_ = 0;
  std::uint64_t next_stranger_ = 1'000'000;
  std::map<std::pair<store::SessionNumber, std::uint32_t>, protocol::Fetched> answers_;
};

}  // namespace larder::ipc::testing_support
