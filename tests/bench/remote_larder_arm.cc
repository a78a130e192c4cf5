// Larder's own remote tier, used like larderd's: from and into slots, with a bound of bytes under
// way, on its own thread.
#include <poll.h>

#include <cstring>

#include "sidecar/tiers/remote/chunks/remote_tier.h"
#include "tests/bench/remote_arms.h"
#include "tests/conformance/tier_chunks.h"

namespace larder::bench {
namespace {

// The bounds of PromotionReads and TierWriter in sidecar/tiering: a read begins below the bound, a
// put ends below the bound.
constexpr std::uint64_t kReadingBytes = 32ULL << 20, kWritingBytes = 64ULL << 20;
constexpr std::uint64_t kOperationMs = 20'000;

class LarderArm final : public RemoteArm {
 public:
  explicit LarderArm(const Place& place) : RemoteArm("larder"), pid_(place.pid) {
    remote::RemoteOptions options;
    options.host = "127.0.0.1";
    options.port = place.port;
    Result<std::unique_ptr<tiers::Tier>> opened = remote::open_remote_tier(clock_, options);
    must(opened.ok(), opened.status().to_string());
    tier_ = *std::move(opened);
  }

  std::string values(std::uint64_t payload) const override {
    remote::Record record;
    record.facts.payload_bytes = payload;
    record.facts.piece_bytes = Chunks::kPiece;
    const std::uint32_t parts = record.parts();
    std::string text = std::to_string(remote::kRecordBytes) + ", ";
    if (parts > 1)
      text += std::to_string(parts - 1) + " x " + std::to_string(record.part_size(0)) + ", ";
    return text + std::to_string(record.part_size(parts - 1));
  }

  Cost set(const Chunks& chunks, std::uint64_t first) override {
    Stopwatch watch(pid_);
    watch.start();
    std::uint64_t in_flight = 0;
    for (std::size_t next = 0, ended = 0; ended < chunks.count();
         ended += collect(chunks, in_flight)) {
      for (; next < chunks.count(); ++next) {
        const std::span<std::byte> slot = chunks.source(next);
        if (in_flight != 0 && in_flight + slot.size() > kWritingBytes) break;
        in_flight += slot.size();
        const Status put = tier_->put(next, tiers::testing_support::key_of(first + next),
                                      chunks.facts(next), slot, in_time());
        must(put.ok(), put.to_string());
      }
    }
    watch.stop();
    return watch.cost();
  }

  Cost get(const Chunks& chunks, std::uint64_t first) override {
    for (std::size_t i = 0; i < chunks.count(); ++i)
      std::memset(chunks.target(i).data(), 0xee, chunks.target(i).size());
    Stopwatch watch(pid_);
    watch.start();
    std::uint64_t in_flight = 0;
    for (std::size_t next = 0, ended = 0; ended < chunks.count();
         ended += collect(chunks, in_flight)) {
      for (; next < chunks.count() && in_flight < kReadingBytes; ++next) {
        in_flight += chunks.target(next).size();
        const Status got = tier_->get(next, tiers::testing_support::key_of(first + next),
                                      chunks.target(next), in_time());
        must(got.ok(), got.to_string());
      }
    }
    watch.stop();
    for (std::size_t i = 0; i < chunks.count(); ++i)
      must(std::memcmp(chunks.source(i).data(), chunks.target(i).data(), chunks.source(i).size()) ==
               0,
           "larder: wrong bytes");
    return watch.cost();
  }

 private:
  std::uint64_t in_time() const { return clock_.now_ns() + kOperationMs * 1'000'000; }
  // How many have ended.
  std::size_t collect(const Chunks& chunks, std::uint64_t& in_flight) {
    pollfd waiting{tier_->message_fd(), POLLIN, 0};
    ::poll(&waiting, 1, 1000);
    messages_.clear();
    tier_->take_messages(messages_);
    for (const tiers::Message& message : messages_)
      must(message.status.ok(), message.status.to_string());
    in_flight -= messages_.size() * chunks.source(0).size();
    return messages_.size();
  }

  const pid_t pid_;
  base::MonotonicClock clock_;
  std::unique_ptr<tiers::Tier> tier_;
  std::vector<tiers::Message> messages_;
};

}  // namespace

std::unique_ptr<RemoteArm> larder_arm(const Place& place) {
  auto arm = std::make_unique<LarderArm>(place);
  return arm;
}

}  // namespace larder::bench
