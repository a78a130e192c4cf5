// Drops: CLEAR calls for a namespace or for all of the pool, one at a time. A drop that the plug-in
// does not do is kept, and begins again. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "sidecar/tiers/plugin/calls.h"

namespace larder::plugin {

struct Drop {
  std::uint64_t serial = 0;
  std::optional<protocol::NamespaceId> id;  // empty: all
};

class Drops {
 public:
  static constexpr std::size_t kMost = 1024;  // the caller refuses others

  explicit Drops(const std::string& prefix) : prefix_(prefix) {}

  void begin(const Drop& drop) { drops_.push_back(drop); }
  // Whether the namespace waits for a drop: no put of the namespace may begin.
  bool covers(const protocol::NamespaceId& id) const;
  // Sends the next CLEAR if no PUT below its prefix is open. REQUIRES: a plug-in is ready.
  void pump(OpenCalls& calls, std::uint64_t now_ns);
  // The first drop, after the answer to its CLEAR. Removed if the CLEAR succeeded.
  Drop answered(Outcome outcome, std::uint64_t now_ns);
  void life_ended() { sent_ = false; }

  bool any_before(std::uint64_t serial) const {
    return !drops_.empty() && drops_.front().serial < serial;
  }
  std::size_t size() const { return drops_.size(); }
  std::uint64_t next_ns(std::uint64_t now_ns) const {
    return !drops_.empty() && now_ns < next_ns_ ? next_ns_ : UINT64_MAX;
  }

 private:
  const std::string& prefix_;
  std::deque<Drop> drops_;
  bool sent_ = false;  // the first drop's CLEAR is open
  std::uint64_t next_ns_ = 0, wait_ns_ = 0;
};

}  // namespace larder::plugin
