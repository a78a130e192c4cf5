// SimNamespaces: the namespaces of one simulated larderd, opened, closed and evicted for their
// place as sessions do (sidecar/session/session_namespaces.cc), and the rules of handles, checked
// after every step.
//
// Rules: a handle that was given back finds no chunk while its index lives. A place serves the next
// namespace under a higher generation. A namespace without a session and without a chunk is given
// back at once. Chunks of a namespace that a session has open stay when another session closes the
// namespace. Owned by one thread.
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
  // The arguments outlive the object. `removed` is called with each space whose chunks leave memory
  // by a drop or for a place.
  SimNamespaces(Machine& machine, Index& index, store::Store& store,
                std::function<void(std::uint64_t)> removed)
      : machine_(machine), index_(index), store_(store), removed_(std::move(removed)) {}

  // A warm restart restored these; `names`: of the earlier journal.
  void restored(std::span<const store::EarlierName> names, const store::Store::Restored& restored);
  // Another engine takes all places except those for two of the spaces; and leaves.
  void crowd();
  void crowd_leaves();

  // kNoNamespace: other sessions have all places.
  std::uint32_t open(SessionNumber session, std::uint64_t space);
  void close(SessionNumber session, std::uint32_t handle, bool drop);
  // Closes all namespaces of a session, at its end.
  void leave(SessionNumber session);
  bool has_open(SessionNumber session, std::uint32_t handle) const;
  // The handle of the space; nullopt: larderd does not know the space.
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
  // the space of each open handle; kSpaces: a handle of the crowd
  std::map<std::uint32_t, std::uint64_t> named_;
  std::map<std::uint32_t, std::uint64_t> ended_;   // the space of each handle that was given back
  std::map<std::uint32_t, std::uint32_t> newest_;  // generation, by place
};

}  // namespace larder::sim
