// SimLarderd: one life of larderd in the simulation: the real Store and the real DiskEngine, and between them the glue that larderd has in
// its loop: what is committed goes down, what an engine asks for comes up, what is dropped is dropped in both, holds of its own keep
// slots that the device reads from or writes to.
//
// Destroyed as it is, it was killed. Owned by one thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tests/sim/machine.h"

namespace larder::sim {

class SimLarderd {
 public:
  SimLarderd(Machine& machine, Model& model);
  ~SimLarderd();
  // Opens the disk, then goes on from the newest index, if there is one. `alive`: sessions whose process lives. An error: no start.
  Status start(const std::set<SessionNumber>& alive);

  // ---- What engines ask for ----
  // The engine of these earlier sessions goes on, and still writes what it lists. Sessions that nothing is left of are taken out.
  SessionNumber attach(std::shared_ptr<Region> region, std::set<SessionNumber>& earlier,
                       std::span<const protocol::SlotRef> still_written);
  void end_session(SessionNumber session);                      // its process lives
  void process_ended(const std::set<SessionNumber>& sessions);  // of one engine
  protocol::Grant reserve(SessionNumber session, std::uint64_t number);
  void commit(SessionNumber session, std::uint64_t number, const protocol::CommitRecord& record);
  void drop(std::uint64_t space);
  // Brings it up from the disk, if it is there and there is room.
  void fetch(std::uint64_t number);
  void bad(const protocol::SlotRef& slot);

  // ---- What its loop does ----
  void turn();        // one of the disk's
  void write_down();  // begins one put
  void flush();
  void let_go_one();  // a chunk that came up is not kept for its engine any more
  void tick();        // verifies, sweeps, settles

  store::Store& memory() { return *store_; }
  const std::shared_ptr<Index>& index() const { return index_; }
  bool settling() const { return store_->settling(); }
  bool writes_from_memory() const;
  bool idle() const { return ops_.empty() && kept_.empty() && to_write_.empty(); }
  bool degraded() const { return disk_.state().degraded(); }
  std::string why_degraded() const { return disk_.state().reason; }
  bool on_disk(std::uint64_t number) const { return catalog_.find(key_of(number)).has_value(); }
  std::uint64_t came_up = 0, went_down = 0, flushes = 0;  // that ended well
  // Ends in good order: nothing new, footers. Returns false where the device stands in the way.
  bool close();

 private:
  struct Op {
    tiers::Operation operation;
    std::uint64_t number = 0;  // drop: its namespace
    std::uint32_t slot = 0;
    std::uint64_t generation = 0;  // put, get: of the slot; drop: the newest that is dropped
    std::uint32_t place = 0;       // put: of the hold
    std::uint64_t deadline_ns = 0;
    bool done = false;  // answered, and the device still has the slot
  };
  struct Kept {
    std::uint32_t place, slot;
    std::uint64_t generation;
  };
  struct Waiting {
    std::uint64_t number;
    std::uint32_t slot;
    std::uint64_t generation;
  };

  std::uint32_t hold(std::uint32_t slot, std::uint64_t generation);
  void accept(disk::Command command, const Op& op);
  void outcome(const tiers::Message& message);
  void put_ended(const Op& op);
  void get_ended(const Op& op, const tiers::Message& message);
  protocol::Key key_in_index(std::uint64_t number) const;
  std::span<std::byte> slot_memory(std::uint64_t offset, std::uint64_t number) const {
    return {machine_.arena.data() + offset, slot_bytes_of(number)};
  }

  Machine& machine_;
  Model& model_;
  const disk::DiskOptions options_ = volume_options();
  disk::Catalog catalog_;
  disk::DiskEngine disk_;
  stats::Stats stats_;
  std::shared_ptr<Index> earlier_, index_;
  std::unique_ptr<store::Store> store_;
  std::uint64_t settle_by_ns_ = 0;
  std::set<SessionNumber> awaited_;
  std::map<SessionNumber, std::shared_ptr<Region>> regions_;
  SessionNumber own_ = 0;  // larderd's: its holds, and the grants of what comes up
  std::vector<bool> places_ = std::vector<bool>(64);
  tiers::Ticket ticket_ = 0;
  std::map<tiers::Ticket, Op> ops_;
  std::deque<Waiting> to_write_;
  std::deque<Kept> kept_;
  std::map<std::uint64_t, std::uint64_t> content_on_disk_;  // of what came up, by its generation here
};

}  // namespace larder::sim
