// SentinelWatch: whom the Sentinels name as the master, asked of all of them again and again. Owned by the tier's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/poller.h"
#include "sidecar/tiers/remote/topology/links.h"

namespace larder::remote {

class SentinelWatch {
 public:
  // All of them outlive it.
  SentinelWatch(const RemoteOptions& options, const base::Clock& clock, Poller& poller);

  // `hurry`: the master is away, or is none: they are asked more often.
  void turn(bool hurry);
  void flush();
  std::uint64_t next_turn_ns() const;
  void restart(const Status& why);

  struct Named {
    Endpoint endpoint;
    std::size_t votes = 0;
  };
  // By those that answer now, most votes first; never one twice.
  std::vector<Named> named() const;
  std::size_t answering() const;
  Status failure() const;  // why nobody is named; ok: not known yet

  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  struct Sentinel {
    std::unique_ptr<Links> links;
    std::optional<Endpoint> named;  // by its last answer, while it is there
    bool answered = false;          // and knows of such a master, or not
    bool asked = false;
    std::uint64_t asked_ns = 0;
  };
  void ask(Sentinel& sentinel);
  void answered(Sentinel& sentinel, const Reply& reply);

  const RemoteOptions& options_;
  const base::Clock& clock_;
  std::vector<Sentinel> sentinels_;
  std::uint64_t pause_ns_ = 0;  // between two questions to one of them
};

}  // namespace larder::remote
