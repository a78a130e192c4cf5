// TierWriter: what goes from the memory to one tier below it: chunks that are soon to be evicted (back) or were just stored (through), and
// drops. Each tier has one. Owned by the loop's thread.
//
// A slot is kept while the tier has it. Whatever the tier refuses or fails stays in memory, not written, and is found again, after a
// pause (refused_chunks.h): shortly before eviction, and in mode `through` by a slow walk over all slots. What counts as seen often enough is counted anew in each life.
// With a time to live a chunk's counts from the moment at which it was stored: it keeps that time below, also where it
// came up and goes down again, and what is older is not written.
// Nothing here waits, but for finish().
#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/config/config.h"
#include "sidecar/store/store.h"
#include "sidecar/tiering/byte_budget.h"
#include "sidecar/tiering/chunk_age.h"
#include "sidecar/tiering/frequency_sketch.h"
#include "sidecar/tiering/refused_chunks.h"
#include "sidecar/tiering/tier_link.h"

namespace larder::tiering {

// What is written to a tier.
struct WriteRules {
  bool through = false;           // what is stored, at once; else what is soon to be evicted
  std::uint32_t admit_after = 1;  // a chunk is written from its n-th sight on
  std::uint32_t ttl_s = 0;        // 0: for ever
  std::uint64_t tier_bytes = 0;   // how large the tier is; 0: nobody knows
  std::uint64_t bytes_per_s = 0;  // that may be written; 0: no bound
};
WriteRules rules_for(const config::DiskConfig& config);
WriteRules rules_for(const config::BackendConfig& config);

class TierWriter final : public store::ChunkListener {
 public:
  // Not answered by the tier; of one more the session that asks for it is ended.
  static constexpr std::size_t kMostDrops = 2048;

  // All of them outlive it. Registers itself with the store and the link.
  TierWriter(TierLink& link, store::Store& store, const base::Clock& clock, const WriteRules& rules, std::uint64_t arena_bytes);
  ~TierWriter() override;

  // Other rules from here on: through, admit_after and bytes_per_s; the others hold as long as the tier does.
  void write_by(const WriteRules& rules);
  // Looks what is to be written, and asks again for what was refused.
  void tick();
  // Gives the tier what it takes now; after messages.
  void pump();

  // Nothing of the namespace (none: of any) is found below from here on. What came of it, once that also survives a restart; the
  // future never throws.
  std::shared_future<Status> drop(const std::optional<protocol::NamespaceId>& id);
  // Of the newest drop, whoever asked for it: earlier ones of its namespace have ended before. Not valid: there was none.
  std::shared_future<Status> last_drop() const { return last_drop_; }
  // How many chunks that one found below: not to be read before its future is ready.
  std::shared_ptr<const std::uint64_t> last_drop_chunks() const { return last_drop_chunks_; }

  // Of the newest drop of it, or of everything, that the tier has not answered. Not valid: there is none.
  std::shared_future<Status> drop_under_way(const protocol::NamespaceId& id) const;

  // A drop of it waits until the tier has room to take it. The tier still finds what is to go: nobody may read it, nor write to it.
  bool waits_for_drop(const protocol::NamespaceId& id) const;

  // At a stop: writes what is admitted and not written, until `by_ns` at the latest, and closes the tier. Blocks.
  void finish(std::uint64_t by_ns);

  void fill(stats::TierStats& stats) const;

  // ChunkListener.
  void committed(const protocol::EntryView& chunk) override;
  void used(const protocol::EntryView& chunk) override;
  void came_up(const protocol::EntryView& chunk, std::uint32_t since_s) override;
  bool wants(const protocol::EntryView& chunk) const override;
  store::EvictedBelow evicted(const protocol::Key& key) override;
  void damaged(const protocol::EntryView& chunk) override;
  bool takes_drops() const override { return drops_.size() < kMostDrops; }
  std::shared_ptr<void> dropping(std::optional<std::uint32_t> handle) override;

 private:
  struct Put {
    protocol::SlotRef slot;
    tiers::ChunkKey key;
    std::uint64_t bytes = 0;
    std::uint64_t begun_ns = 0;
    bool damaged = false;  // found out since: it is to be forgotten as soon as it is there
  };
  struct Drop {
    std::optional<protocol::NamespaceId> id;
    std::uint64_t by_ns = 0;
    tiers::Ticket ticket = 0;  // 0: the tier has not taken it yet
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
  bool start_put(const protocol::EntryView& chunk, const tiers::ChunkKey& key, const tiers::ChunkFacts& facts);
  bool is_below(const tiers::ChunkKey& key, const tiers::ChunkFacts& facts) const;
  bool is_dropping(const protocol::NamespaceId& id) const;
  std::uint64_t age_s(const protocol::EntryView& chunk) const;
  bool too_old(const protocol::EntryView& chunk) const { return rules_.ttl_s != 0 && age_s(chunk) >= rules_.ttl_s; }
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
  const std::size_t fashion_;       // chunks that the admission filter tells apart
  const std::uint64_t most_bytes_;  // in flight
  Admission admission_;
  ByteBudget budget_;
  ChunkAge stored_;
  // Where a chunk that came up stands, since when its time to live counts (Unix time; 0: that is over), if there is one. Entries of slots
  // that are others' now are not meant.
  struct CameUp {
    std::uint64_t generation;
    std::uint32_t since_s;
  };
  std::unordered_map<std::uint32_t, CameUp> came_up_;
  std::deque<protocol::SlotRef> ahead_;   // soon to be evicted
  std::deque<protocol::SlotRef> queued_;  // others to be written
  std::vector<protocol::SlotRef> found_;  // scratch
  std::unordered_map<tiers::Ticket, Put> puts_;
  std::unordered_set<std::uint32_t> writing_;  // their slots
  std::uint64_t writing_bytes_ = 0;
  RefusedChunks refused_;
  std::uint64_t too_large_bytes_ = UINT64_MAX;  // slots from this size on the tier never takes
  std::string too_large_;                       // why, and what to set, while a namespace has such chunks
  bool began_ = false;                          // a put since the last look ahead
  std::uint32_t walked_to_ = 0;
  bool walking_all_ = false;  // also what is marked written
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
