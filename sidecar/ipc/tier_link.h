// TierLink: the tier below the memory, as the loop has it: opened where the configuration names one, its messages handed to whoever
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
#include "sidecar/tiers/tier.h"

namespace larder::ipc {

class TierLink {
 public:
  using Answer = std::function<void(const tiers::Message&)>;
  using Wait = std::function<void(int timeout_ms)>;

  // What the configuration asks for. Errors name disk.path or disk.size. Clock and arena outlive it. REQUIRES: disk.path is given.
  // `present`: the arena's pages are all there. Only then it is registered with the kernel, which would bring every page in first and
  // keep a cold start standing for as long. `residents` is told what the tier has.
  static Result<std::unique_ptr<TierLink>> open(const config::Config& config, std::span<std::byte> arena, bool present,
                                                std::shared_ptr<tiers::Residents> residents, const base::Clock& clock);
  // `wait`: how a message is waited for; without it the tier's descriptor is polled.
  TierLink(std::unique_ptr<tiers::Tier> tier, std::string path, Wait wait = {})
      : tier_(std::move(tier)), path_(std::move(path)), wait_(std::move(wait)) {}

  tiers::Tier& tier() { return *tier_; }
  const tiers::Tier& tier() const { return *tier_; }
  // Tells its file from every other; the same in every life that opens it. 0: nothing does.
  std::uint64_t id() const;
  // Never given twice.
  tiers::Ticket next_ticket() { return ++ticket_; }
  // Both messages of an operation go to the one who is named here for its kind.
  void answer_to(tiers::Operation operation, Answer answer) { answers_[static_cast<std::size_t>(operation)] = std::move(answer); }
  // Hands out the messages that are there.
  void deliver();
  // The same, and waits up to `timeout_ms` for one: at a stop, when the loop does not turn any more.
  void wait(int timeout_ms);
  void fill(stats::DiskStats& stats) const;

 private:
  std::unique_ptr<tiers::Tier> tier_;
  std::string path_;
  Wait wait_;
  tiers::Ticket ticket_ = 0;
  std::array<Answer, tiers::kOperations> answers_;
  std::vector<tiers::Message> messages_;  // kept, so that handing out allocates nothing
};

}  // namespace larder::ipc
