// LowerTiers: a client's calls about the tiers below memory and the shared backend, and the verbs
// on chunks (prefetch, pin, unpin, evict, demote, keep).
//
// Thread-safe. act() waits for larderd, and so does poll() of fetches() and of tier_probes(), at
// most for the time that the caller gives. No other call waits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "shim/client/acts.h"
#include "shim/client/control.h"
#include "shim/client/fetches.h"
#include "shim/client/namespaces.h"
#include "shim/client/tier_probes.h"

namespace larder::client {

class LowerTiers {
 public:
  // `namespaces` outlives the object. `control`: null until the namespace is set.
  LowerTiers(Namespaces& namespaces, std::function<Control*()> control)
      : namespaces_(namespaces), control_(std::move(control)) {}

  // The speed of the tiers below memory; nullopt for a larderd without one.
  std::optional<protocol::ResidencySpeed> speed() const;
  // Whether larderd shares a backend, so that probe() has one to ask.
  bool shares() const;
  // See Fetches. kNotFound: the drop of the namespace is still under way.
  Result<std::uint64_t> fetch(const Hashes& hashes, std::uint32_t deadline_ms);
  Fetches& fetches() { return fetches_; }
  // See TierProbes. `flags`: of protocol::Probe. kNotFound as in fetch().
  Result<std::uint64_t> probe(const Hashes& hashes, std::uint32_t deadline_ms,
                              std::uint32_t flags = 0);
  TierProbes& tier_probes() { return tier_probes_; }
  // See Acts::run(). A prefetch of states brings the last one alone, where larderd knows the verb.
  Result<protocol::ActCounts> act(protocol::Verb verb, const Hashes& hashes, std::uint32_t wait_ms,
                                  std::uint32_t keep_s = 0);
  Acts& acts() { return acts_; }
  // The session of `attachment` has ended: every wait for an answer of this session ends now.
  void lost(const std::shared_ptr<Attachment>& attachment);

 private:
  // Begins a fetch or a probe.
  template <typename Kind>
  Result<std::uint64_t> ask(Requests<Kind>& requests, const Hashes& hashes,
                            std::uint32_t deadline_ms, std::uint32_t flags = 0);
  // The current attachment while its index lives, or nullptr.
  std::shared_ptr<Attachment> living() const;

  Namespaces& namespaces_;
  const std::function<Control*()> control_;
  Acts acts_;
  Fetches fetches_;
  TierProbes tier_probes_;
};

}  // namespace larder::client
