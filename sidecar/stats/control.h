// Control: the requests of the admin side to the running larderd. The event loop implements the
// interface; the HTTP room calls it.
//
// Thread-safe: calls come from HTTP threads, and wait for the loop for `deadline_ms` at most.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "shim/protocol/key.h"
#include "shim/protocol/messages.h"
#include "sidecar/stats/stats.h"
#include "sidecar/stats/trace.h"

namespace larder::stats {

class Control {
 public:
  virtual ~Control() = default;
  // A copy that is at most about 100 ms old; never waits for the loop.
  virtual Stats snapshot() const = 0;
  // False while the loop has not turned for 2 s.
  virtual bool healthy() const = 0;
  // Whether engines can attach.
  virtual bool ready() const = 0;
  // Drops every chunk of the namespace. `id`: the id, or a unique prefix of at least 4 digits.
  // Returns the number of chunks in memory or in a lower tier, whichever is larger.
  virtual Result<std::uint64_t> drop_namespace(const std::string& id,
                                               std::uint32_t deadline_ms) = 0;
  // Prefetches, pins, unpins or evicts the chunks of these hashes in the namespace. `id`: as for
  // drop_namespace().
  virtual Result<protocol::ActCounts> act(protocol::Verb verb, const std::string& id,
                                          const std::vector<protocol::BlockHash>& hashes,
                                          std::uint32_t deadline_ms) = 0;
  virtual Result<std::uint64_t> clear(std::uint32_t deadline_ms) = 0;
  // The requests from number `from` on; without `from`, the requests from now on. Recording stops
  // some seconds after the last call. Never waits.
  virtual TracePage trace(std::optional<std::uint64_t> from) = 0;
};

}  // namespace larder::stats
