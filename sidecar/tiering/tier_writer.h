// TierWriter: copies chunks from memory to one lower tier, and forwards drops. In write-back mode a
// chunk is written shortly before its eviction, in write-through mode right after its store. Each
// tier has one writer. Owned by the thread of the loop.
//
// A slot is kept while the tier uses it. A chunk that the tier refuses or fails to store stays in
// memory, and is offered again after a pause (refused_chunks.h): shortly before eviction, and in
// write-through mode by a slow walk over all slots. The count of sights starts again with each run
// of larderd. A time to live counts from the store of the chunk: a promoted chunk keeps its time
// when it is written again, and an expired chunk is not written. Only finish() blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sidecar/base/byte_budget.h"
#include "sidecar/base/clock.h"
#include "sidecar/config/config.h"
#include "sidecar/store/store.h"
#include "sidecar/tiering/chunk_age.h"
#include "sidecar/tiering/frequency_sketch.h"
#include "sidecar/tiering/refused_chunks.h"
#include "sidecar/tiering/tier_link.h"

namespace larder::tiering {

// The rules for writes to a tier.
struct WriteRules {
  bool through = false;           // write-through; else write-back
  std::uint32_t admit_after = 1;  // a chunk is written from its n-th sight on
  std::uint32_t ttl_s = 0;        // 0: no limit
  std::uint64_t tier_bytes = 0;   // the size of the tier; 0: unknown
  std::uint64_t bytes_per_s = 0;  // the write rate; 0: no bound
};
WriteRules rules_for(const config::DiskConfig& config);
WriteRules rules_for(const config::BackendConfig& config);

class TierWriter final : public store::ChunkListener {
 public:
  // Drops without an answer of the tier. A session that asks for one more is ended.
  static constexpr std::size_t kMostDrops = 2048;

  // All arguments outlive this object, which registers itself with the store and the link.
  TierWriter(TierLink& link, store::Store& store, const base::Clock& clock, const WriteRules& rules,
             std::uint64_t arena_bytes);
  ~TierWriter() override;

  // Changes through, admit_after and bytes_per_s. The other rules are fixed.
  void write_by(const WriteRules& rules);
  // Finds chunks to write, and offers refused chunks again.
  void tick();
  // Passes chunks to the tier as far as it accepts them. Called after messages.
  void pump();

  // Drops the namespace (empty: all) in the tier: no chunk of it is found from here on. The future
  // gives the result once the drop survives a restart, and never throws.
  std::shared_future<Status> drop(const std::optional<protocol::NamespaceId>& id);
  // The result of the newest drop: earlier drops of its namespace end before. Invalid before the
  // first drop.
  std::shared_future<Status> last_drop() const { return last_drop_; }
  // The number of chunks that this drop found. REQUIRES of readers: the future is ready.
  std::shared_ptr<const std::uint64_t> last_drop_chunks() const { return last_drop_chunks_; }

  // The newest drop of the namespace, or of everything, without an answer of the tier. Invalid if
  // there is none.
  std::shared_future<Status> drop_under_way(const protocol::NamespaceId& id) const;

  // Whether a drop of the namespace waits for room in the tier. The tier still finds the chunks:
  // they must neither be read nor written.
  bool waits_for_drop(const protocol::NamespaceId& id) const;

  // At a stop: writes the admitted chunks that the tier lacks, until `by_ns` at the latest, and
  // closes the tier. Blocks.
  void finish(std::uint64_t by_ns);

  void fill(stats::TierStats& stats) const;

  // ChunkListener.
  void committed(const protocol::EntryView& chunk) override;
  void used(const protocol::EntryView& chunk) override;
  void came_up(const protocol::EntryView& chunk, std::uint32_t since_s) override;
  bool wants(const protocol::EntryView& chunk) const override;
  store::LowerTierEviction evicted(const protocol::Key& key) override;
  void damaged(const protocol::EntryView& chunk) override;
  bool takes_drops() const override { return drops_.size() < kMostDrops; }
  std::shared_ptr<void> dropping(std::optional<std::uint32_t> handle) override;

 private:
  struct Put {
    protocol::SlotRef slot;
    tiers::ChunkKey key;
    std::uint64_t bytes = 0;
    std::uint64_t begun_ns = 0;
    bool damaged = false;  // the bytes turned out bad: forget the chunk once the put has ended
  };
  struct Drop {
    std::optional<protocol::NamespaceId> id;
    std::uint64_t by_ns = 0;
    tiers::Ticket ticket = 0;  // 0: waits for room in the tier
    std::promise<Status> ended;
    std::shared_future<Status> future;
    std::shared_ptr<std::uint64_t> chunks = std::make_shared<std::uint64_t>(0);
  };
  struct Dropping {
    std::optional<protocol::NamespaceId> id;
    std::weak_ptr<void> going_on;
  };

  void look_ahead();
  void walk();
  void notice_failures();
  bool begin(const protocol::SlotRef& slot);
  bool start_put(const protocol::EntryView& chunk, const tiers::ChunkKey& key,
                 const tiers::ChunkFacts& facts);
  bool is_dropping(const protocol::NamespaceId& id) const;
  std::uint64_t age_s(const protocol::EntryView& chunk) const;
  bool too_old(const protocol::EntryView& chunk) const {
    return rules_.ttl_s != 0 && age_s(chunk) >= rules_.ttl_s;
  }
  void put_ended(const tiers::Message& message);
  void look_at_sizes();
  void too_large(std::uint64_t bytes, const Status& why);
  void drop_ended(const tiers::Message& message);
  void send_drops();
  bool write_rest(std::uint64_t by_ns);
  bool flush(std::uint64_t by_ns);
  std::uint64_t in_ms(std::uint64_t ms) const { return clock_.now_ns() + ms * 1'000'000; }

  TierLink& link_;
  store::Store& store_;
  const base::Clock& clock_;
  WriteRules rules_;
  const std::size_t fashion_;       // the number of chunks that the admission filter distinguishes
  const std::uint64_t most_bytes_;  // in flight
  Admission admission_;
  base::ByteBudget budget_;
  ChunkAge stored_;
  // With a time to live: by slot of a promoted chunk, the start of its time (Unix time; 0:
  // expired). The generation tells whether an entry is stale.
  struct CameUp {
    std::uint64_t generation;
    std::uint32_t since_s;
  };
  std::unordered_map<std::uint32_t, CameUp> came_up_;
  std::deque<protocol::SlotRef> ahead_;   // chunks before eviction
  std::deque<protocol::SlotRef> queued_;  // other chunks to write
  std::vector<protocol::SlotRef> found_;  // scratch
  std::unordered_map<tiers::Ticket, Put> puts_;
  std::unordered_set<std::uint32_t> writing_;  // their slots
  std::uint64_t writing_bytes_ = 0;
  RefusedChunks refused_;
  std::uint64_t too_large_bytes_ = UINT64_MAX;  // the tier never accepts slots of this size or more
  std::string too_large_;  // the reason and the remedy, while a namespace has such chunks
  bool began_ = false;     // a put since the last look ahead
  std::uint32_t walked_to_ = 0;
  bool walking_all_ = false;  // includes chunks that are marked written
  std::uint64_t times_degraded_ = 0;
  bool degraded_ = false;
  std::uint32_t ticks_ = 0;
  std::deque<Drop> drops_;
  std::vector<Dropping> dropping_;
  std::shared_future<Status> last_drop_;
  std::shared_ptr<const std::uint64_t> last_drop_chunks_;
  tiers::Ticket flush_ticket_ = 0;
  std::optional<Status> flushed_;
  std::uint64_t written_ = 0, not_queued_ = 0;
  stats::Histogram put_time_;
};

}  // namespace larder::tiering
