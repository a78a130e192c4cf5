// SentinelWatch: asks all Sentinels at intervals for the master. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/links.h"

namespace larder::remote {

class SentinelWatch {
 public:
  // All arguments outlive this object.
  SentinelWatch(const RemoteOptions& options, const base::Clock& clock, Poller& poller);

  // `hurry`: the master is away or lost its role: ask more often.
  void turn(bool hurry);
  void flush();
  std::uint64_t next_turn_ns() const;
  void restart(const Status& why);

  struct Named {
    Endpoint endpoint;
    std::size_t votes = 0;
  };
  // The masters that answering Sentinels name, without duplicates, most votes first.
  std::vector<Named> named() const;
  std::size_t answering() const;
  Status failure() const;  // why no master is named; ok: unknown so far

  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  struct Sentinel {
    std::unique_ptr<Links> links;
    std::optional<Endpoint> named;  // by the last reply of a connected Sentinel
    bool answered = false;          // whether or not the Sentinel knows the master
    bool asked = false;
    std::uint64_t asked_ns = 0;
  };
  void ask(Sentinel& sentinel);
  void answered(Sentinel& sentinel, const Reply& reply);

  const RemoteOptions& options_;
  const base::Clock& clock_;
  std::vector<Sentinel> sentinels_;
  std::uint64_t pause_ns_ = 0;  // between two questions to a Sentinel
};

}  // namespace larder::remote
