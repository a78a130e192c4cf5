// SimNamespaces: the namespaces of one simulated larderd: opened, closed and evicted for their place as its sessions do it
// (sidecar/session/session_namespaces.cc), and the rules of handles, looked at after every step.
//
// Rules: a handle that was given back names nothing for as long as its index lives; a place serves the next namespace under a higher
// generation; a namespace without session and chunk is given back at once; chunks of a namespace that a session has open stay, whoever
// else closes it. Owned by one thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "tests/sim/machine.h"

namespace larder::sim {

class SimNamespaces {
 public:
  // All outlive it. `removed` is called with each space whose chunks leave memory by a drop or for a place.
  SimNamespaces(Machine& machine, Index& index, store::Store& store, std::function<void(std::uint64_t)> removed)
      : machine_(machine), index_(index), store_(store), removed_(std::move(removed)) {}

  // A warm restart has brought these, `names` of the earlier journal.
  void restored(std::span<const store::EarlierName> names, const store::Store::Restored& restored);
  // Another engine takes all places but two of the spaces'; and goes.
  void crowd();
  void crowd_leaves();

  // kNoNamespace: every place is another session's.
  std::uint32_t open(SessionNumber session, std::uint64_t space);
  void close(SessionNumber session, std::uint32_t handle, bool drop);
  // All of a session, at its end.
  void leave(SessionNumber session);
  bool has_open(SessionNumber session, std::uint32_t handle) const;
  // Under which the space is known; nothing: it is not.
  std::optional<std::uint32_t> handle_of(std::uint64_t space) const;

  // The rules.
  void check();

  std::uint64_t given_back = 0, evicted = 0, reused = 0;

 private:
  void enter(std::uint32_t handle, std::uint64_t space);
  void note(std::uint32_t handle, std::uint64_t space);
  void drop_from_memory(std::uint32_t handle);
  void check_named(std::uint32_t handle, std::uint64_t space);
  std::set<std::uint64_t> visible(std::uint32_t handle, std::uint64_t space) const;

  Machine& machine_;
  Index& index_;
  store::Store& store_;
  const std::function<void(std::uint64_t)> removed_;
  std::map<SessionNumber, std::set<std::uint32_t>> opened_;
  std::map<std::uint32_t, std::uint64_t> named_;   // the space of each handle that is open, kSpaces: of the crowd
  std::map<std::uint32_t, std::uint64_t> ended_;   // of each that was given back
  std::map<std::uint32_t, std::uint32_t> newest_;  // generation, by place
};

}  // namespace larder::sim
