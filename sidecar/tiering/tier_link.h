// TierLink: one lower tier of the configuration. Passes each message of the tier to the object that
// is registered for the kind of operation. Owned by the thread of the loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/config/config.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_listener.h"
#include "sidecar/tiers/peer/options.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiering {

// The kind of a tier, nearest first; also the number for the marks of the store.
enum class TierKind : store::TierNumber { kDisk = 0, kPeers = 1, kBackend = 2 };

class TierLink {
 public:
  using Answer = std::function<void(const tiers::Message&)>;
  using Wait = std::function<void(int timeout_ms)>;

  // Opens the disk of the configuration. Clock and arena outlive this object. `residents` hears of
  // the content of the tier. `present`: all pages of the arena are present. Only then the arena is
  // registered with the kernel: a registration makes every page present first, and would stop a
  // cold start for that time. Errors name disk.path or disk.size.
  // REQUIRES: disk.path is set.
  static Result<std::unique_ptr<TierLink>> open_disk(const config::Config& config,
                                                     std::span<std::byte> arena, bool present,
                                                     std::shared_ptr<tiers::Residents> residents,
                                                     const base::Clock& clock);
  // Errors name a wrong key of backend.*; an unreachable server is no error. REQUIRES: backend.url
  // is set.
  static Result<std::unique_ptr<TierLink>> open_backend(const config::Config& config,
                                                        std::shared_ptr<tiers::Residents> residents,
                                                        const base::Clock& clock);
  // Errors name a wrong key of peers.*; members that cannot be reached are no error. `self`: this
  // run of larderd. REQUIRES: peers.members is set.
  static Result<std::unique_ptr<TierLink>> open_peers(const config::Config& config,
                                                      const peer::Instance& self,
                                                      std::shared_ptr<tiers::Residents> residents,
                                                      const base::Clock& clock);
  // `place`: the place of the tier, for people. `wait`: waits for a message; without it the
  // descriptor of the tier is polled.
  TierLink(TierKind kind, std::unique_ptr<tiers::Tier> tier, std::string place, Wait wait = {})
      : kind_(kind), tier_(std::move(tier)), place_(std::move(place)), wait_(std::move(wait)) {}

  tiers::Tier& tier() { return *tier_; }
  const tiers::Tier& tier() const { return *tier_; }
  TierKind kind() const { return kind_; }
  store::TierNumber number() const { return static_cast<store::TierNumber>(kind_); }
  // The name in log lines, fallbacks and errors.
  std::string name() const;
  // Whether other larderd write to the tier too: this larderd does not know the whole content.
  bool shared() const { return kind_ != TierKind::kDisk; }
  // Whether this larderd only reads from the tier: other larderd own the chunks.
  bool read_only() const { return kind_ == TierKind::kPeers; }
  // Whether the tier has many devices, of which one may stand still: see Tier::device().
  bool many() const { return kind_ == TierKind::kPeers; }
  // Identifies the device that may still write into slots after the end of this process; equal in
  // every larderd that opens the tier. 0: unknown.
  std::uint64_t id() const;
  // Unique among all links.
  tiers::Ticket next_ticket() { return std::uint64_t{number()} << 60 | ++ticket_; }
  // Registers the receiver of both messages of an operation.
  void answer_to(tiers::Operation operation, Answer answer) {
    answers_[static_cast<std::size_t>(operation)] = std::move(answer);
  }
  // Passes on the waiting messages.
  void deliver();
  // The same, after a wait of up to `timeout_ms` for a message. For a stop, when the loop no longer
  // turns.
  void wait(int timeout_ms);
  void fill(stats::TierStats& stats) const;

 private:
  TierKind kind_;
  std::unique_ptr<tiers::Tier> tier_;
  std::string place_;
  Wait wait_;
  tiers::Ticket ticket_ = 0;
  std::array<Answer, tiers::kOperations> answers_;
  std::vector<tiers::Message> messages_;  // reused, so that deliver() allocates no memory
};

}  // namespace larder::tiering
