// TierLink: a tier below the memory, as the loop has it: opened where the configuration names one, its messages handed to whoever
// asked, by the kind of operation. Owned by the loop's thread.
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
#include "sidecar/tiers/tier.h"

namespace larder::tiering {

// By how near they are: the number under which the store marks what each has.
enum class TierKind : store::TierNumber { kDisk = 0, kBackend = 1 };

class TierLink {
 public:
  using Answer = std::function<void(const tiers::Message&)>;
  using Wait = std::function<void(int timeout_ms)>;

  // What the configuration asks for. Clock and arena outlive it. `residents` is told what the tier has.
  // Errors name disk.path or disk.size. REQUIRES: disk.path is given. `present`: the arena's pages are all there. Only then it is
  // registered with the kernel, which would bring every page in first and keep a cold start standing for as long.
  static Result<std::unique_ptr<TierLink>> open_disk(const config::Config& config, std::span<std::byte> arena, bool present,
                                                     std::shared_ptr<tiers::Residents> residents, const base::Clock& clock);
  // Errors name what is wrong with the backend's keys: a server that is not there is none. REQUIRES: backend.url is given.
  static Result<std::unique_ptr<TierLink>> open_backend(const config::Config& config, std::shared_ptr<tiers::Residents> residents,
                                                        const base::Clock& clock);
  // `place`: where it is, for people. `wait`: how a message is waited for; without it the tier's descriptor is polled.
  TierLink(TierKind kind, std::unique_ptr<tiers::Tier> tier, std::string place, Wait wait = {})
      : kind_(kind), tier_(std::move(tier)), place_(std::move(place)), wait_(std::move(wait)) {}

  tiers::Tier& tier() { return *tier_; }
  const tiers::Tier& tier() const { return *tier_; }
  TierKind kind() const { return kind_; }
  store::TierNumber number() const { return static_cast<store::TierNumber>(kind_); }
  // As lines of the log, fallbacks and errors call it.
  std::string name() const { return kind_ == TierKind::kDisk ? "disk" : "backend"; }
  // Others write to it as well: what this larderd knows of it is not all.
  bool shared() const { return kind_ == TierKind::kBackend; }
  // Tells what may still write into slots after this process has ended from every other such thing; the same in every life that opens
  // it. 0: nothing tells.
  std::uint64_t id() const;
  // Never given twice, by no link.
  tiers::Ticket next_ticket() { return std::uint64_t{number()} << 60 | ++ticket_; }
  // Both messages of an operation go to the one who is named here for its kind.
  void answer_to(tiers::Operation operation, Answer answer) { answers_[static_cast<std::size_t>(operation)] = std::move(answer); }
  // Hands out the messages that are there.
  void deliver();
  // The same, and waits up to `timeout_ms` for one: at a stop, when the loop does not turn any more.
  void wait(int timeout_ms);
  void fill(stats::TierStats& stats) const;

 private:
  TierKind kind_;
  std::unique_ptr<tiers::Tier> tier_;
  std::string place_;
  Wait wait_;
  tiers::Ticket ticket_ = 0;
  std::array<Answer, tiers::kOperations> answers_;
  std::vector<tiers::Message> messages_;  // kept, so that handing out allocates nothing
};

}  // namespace larder::tiering
