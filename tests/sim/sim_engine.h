// SimEngine: an inference engine in the simulation. Like the shim, the engine looks up, holds,
// copies in two halves, verifies, stores in two halves, fetches, and opens and closes namespaces.
// It can fall silent, lose its session and attach again. Verified chunks are compared with the
// Model. Owned by one thread.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/sim_larderd.h"

namespace larder::sim {

class SimEngine {
 public:
  SimEngine(Machine& machine, Model& model) : machine_(machine), model_(model) {}

  bool attached() const { return attached_; }
  bool silent() const { return silent_; }
  // Announces holds and running stores, and looks up in the newest index from here on.
  void attach(SimLarderd& larderd);
  // larderd is gone, or has ended the session: requests stop, look-ups go on. `holds_count`:
  // larderd awaits the engine.
  void lose_session(bool holds_count);
  void set_silent(SimLarderd* larderd, bool silent);
  // the sessions of this process that larderd may still know
  std::set<SessionNumber> sessions() const;

  // Opens the namespace, in this session and in later ones. False: there is no place.
  bool open(SimLarderd& larderd, std::uint64_t space);
  bool has_open(std::uint64_t space) const { return handles_[space].has_value(); }
  // From here on the namespace is a miss. A thread that has not heard of the close may still look
  // up under the last handle.
  std::string close(SimLarderd* larderd, std::uint64_t space, bool drop);
  // Such a thread sends a request to larderd.
  std::string ask_under_closed(SimLarderd& larderd, std::uint64_t number);

  // Each returns a description of the step. `larderd` may be null.
  std::string begin_store(SimLarderd& larderd, std::uint64_t number);
  std::string go_on_storing(SimLarderd* larderd);
  std::string begin_load(std::uint64_t number);
  std::string go_on_loading(SimLarderd* larderd);
  std::string let_go();
  // For `families` families, from the chunk's family on.
  std::string begin_fetch(SimLarderd& larderd, std::uint64_t number, std::uint64_t families,
                          std::uint32_t deadline_ms);
  std::string end_fetch(SimLarderd& larderd);
  std::string begin_probe(SimLarderd& larderd, std::uint64_t number, std::uint64_t families,
                          std::uint32_t deadline_ms);
  void probed(const SimLarderd::ProbeAnswer& answer);
  // An answer, perhaps for another engine.
  void fetched(const SimLarderd::Answer& answer);
  // Checks after all answers: no answer is late, and fetched chunks stay until the fetch is ended.
  void look_at_fetches(SimLarderd& larderd) const;
  bool fetching() const { return !fetches_.empty(); }
  bool busy() const { return !stores_.empty() || !loads_.empty() || !held_.empty(); }
  bool present(std::uint64_t number) const;

  std::uint64_t loaded = 0, stored = 0, misses = 0, fetch_hits = 0, families_found = 0;

 private:
  struct Store {
    std::uint64_t number;
    SessionNumber session;
    protocol::Grant grant;
    tiers::ChunkFacts facts;
    std::shared_ptr<Slot> bytes;
    int halves = 0;
  };
  struct Load {
    std::uint64_t number;
    protocol::EntryView view;
    std::uint64_t content;
    std::uint32_t place;
    std::shared_ptr<Slot> copy;
    int halves = 0;
    bool excused = false;  // the hold did not count all the time
  };
  struct Held {
    std::uint32_t slot, place;
    std::uint64_t generation;
  };

  struct Fetch {
    std::uint32_t request, handle;
    std::uint64_t number, families;  // asked for; after the answer: kept
    std::uint64_t deadline_ns;
    std::map<std::uint64_t, std::uint64_t> removals;  // of each chunk, at the start of the fetch
    std::optional<std::uint64_t> answered_ns = {};
  };

  std::optional<std::uint32_t> handle_to_look_under(std::uint64_t space);
  std::uint32_t take_place();
  void drop_place(std::uint32_t place);
  std::string check(Load& load, SimLarderd* larderd);

  Machine& machine_;
  Model& model_;
  bool attached_ = false, silent_ = false;
  bool counted_ = false;  // the holds count
  SessionNumber number_ = 0;
  std::set<SessionNumber> earlier_;
  std::shared_ptr<Region> region_;
  std::shared_ptr<Index> index_;
  using Handles = std::array<std::optional<std::uint32_t>, kSpaces>;
  Handles handles_, closed_;  // in index_
  std::array<bool, kSpaces> wanted_{true, true, true};
  std::deque<Store> stores_;
  std::deque<Load> loads_;
  std::deque<Held> held_;  // after a load, for a while
  struct Probe {
    std::uint32_t request;
    std::uint64_t families, deadline_ns;
  };
  std::deque<Fetch> fetches_;
  std::deque<Probe> tier_probes_;
  std::uint32_t requests_ = 0;
  std::vector<bool> places_ = std::vector<bool>(32);
};

}  // namespace larder::sim
