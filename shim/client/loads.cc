#include "shim/client/loads.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>

#include "shim/protocol/codec.h"
#include "shim/protocol/test_point.h"

namespace larder::client {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}

// EventKind::kLoadFailed's reasons.
std::uint64_t failure_reason(Code code) {
  switch (code) {
    case Code::kDataLoss: return 1;
    case Code::kNotFound: return 2;
    case Code::kDeadlineExceeded: return 3;
    default: return 4;
  }
}

}  // namespace

class Loads::Job final : public CopyJob {
 public:
  Job(Loads& loads, std::shared_ptr<Attachment> attachment, Transfer transfer, std::uint64_t ticket,
      std::uint32_t start_within_ms, std::shared_ptr<const copy::Fence> after)
      : CopyJob(transfer.hashes.size()),
        loads_(loads),
        attachment_(std::move(attachment)),
        transfer_(std::move(transfer)),
        group_(loads.spec_.groups[transfer_.group]),
        ticket_(ticket),
        after_(std::move(after)),
        begun_(Clock::now()),
        deadline_(begun_ + std::chrono::milliseconds(start_within_ms)) {}

  bool copy(std::size_t part) override {
    Code code = start() ? Code::kOk : Code::kDeadlineExceeded;
    try {
      if (code == Code::kOk) code = copy_chunk(part);
    } catch (const std::exception&) {
      code = Code::kInternal;
    }
    if (code == Code::kOk) {
      ++copied_;
      return true;
    }
    Code none = Code::kOk;
    failure_.compare_exchange_strong(none, code);
    return false;
  }

  void finished() override {
    const auto now = Clock::now();
    const Clock::time_point started = started_ns_ <= 0 ? now : begun_ + std::chrono::nanoseconds(started_ns_);
    Completion done;
    done.ticket = ticket_;
    done.status = failure_;
    if (done.status == Code::kOk && copied_ < transfer_.hashes.size()) done.status = Code::kUnavailable;  // the client closes
    done.bytes = copied_ * group_.payload_bytes();
    done.wait_ns = ns_between(begun_, started);
    done.copy_ns = ns_between(started, now);
    report(done);
    LARDER_POINT(load_ended);
    attachment_.reset();
    loads_.complete(done);
  }

 private:
  // False: too late. The first thread decides for all.
  bool start() {
    const auto now = Clock::now();
    const std::int64_t mine = now > deadline_ ? kTooLate : std::max<std::int64_t>(1, (now - begun_).count());
    std::int64_t decided = 0;
    if (started_ns_.compare_exchange_strong(decided, mine)) decided = mine;
    return decided != kTooLate;
  }

  Code copy_chunk(std::size_t part) {
    const protocol::IndexReader& index = attachment_->index();
    if (index.dead()) return Code::kNotFound;  // nobody keeps what it says any more
    const auto view = index.find(attachment_->key(transfer_.ns, transfer_.hashes[part], transfer_.shard, transfer_.group));
    if (!view) return Code::kNotFound;
    // Key, generation, place and root belong together, or another chunk's bytes would verify. No BAD: larderd would look in the same entry.
    if (view->record != protocol::record_checksum(*view)) return Code::kDataLoss;
    if (view->payload_bytes != group_.payload_bytes() || view->piece_bytes != group_.piece_bytes) return Code::kDataLoss;
    const std::span<const std::byte> slot = attachment_->slot(view->offset_bytes, group_.slot_bytes());
    if (slot.empty()) return Code::kDataLoss;
    LARDER_POINT(load_found);
    std::vector<std::byte*> pieces;
    chunk_pieces(loads_.pages_[transfer_.group], transfer_.pages.data() + part * group_.blocks_per_chunk, group_.blocks_per_chunk,
                 pieces);
    const auto place = attachment_->holds().acquire(index, view->slot, view->generation);
    if (!place) return Code::kNotFound;
    std::optional<Held> held(std::in_place, attachment_->holds(), *place);  // let go also where the copy throws
    const Status copied = loads_.engine_.load(slot, view->root, {pieces, group_.piece_bytes, after_.get()});
    const bool still_there = index.still_committed(view->slot, view->generation);
    LARDER_POINT(load_copied);
    held.reset();
    LARDER_POINT(load_hold_released);
    if (copied.ok()) {
      attachment_->events().add({protocol::EventKind::kTouch, view->slot, view->generation});
      return Code::kOk;
    }
    if (!still_there) return Code::kNotFound;               // reclaimed under the copy: no bad byte, only a late one
    if (copied.code() == Code::kDataLoss) send_bad(*view);  // other failures are this engine's, and say nothing of the slot
    return copied.code();
  }

  void send_bad(const protocol::EntryView& view) {
    protocol::Encoder message(protocol::MessageType::kBad, 0);
    message.append(protocol::SlotList{1, 0}).append(protocol::SlotRef{view.slot, 0, view.generation});
    attachment_->outbox().send(message.packet());
    LARDER_POINT(bad_sent);
  }

  void report(const Completion& done) {
    EventFields event;
    event.kind = done.status == Code::kOk ? protocol::EventKind::kLoad : protocol::EventKind::kLoadFailed;
    event.a = done.status == Code::kOk ? done.bytes : failure_reason(done.status);
    event.b = is_first_part(transfer_) ? copied_ * loads_.spec_.chunk_tokens : 0;
    event.c = done.wait_ns;
    event.d = done.copy_ns;
    attachment_->events().add(event);
  }

  static constexpr std::int64_t kTooLate = -1;

  Loads& loads_;
  std::shared_ptr<Attachment> attachment_;
  const Transfer transfer_;
  const Group& group_;
  const std::uint64_t ticket_;
  const std::shared_ptr<const copy::Fence> after_;
  const Clock::time_point begun_;
  const Clock::time_point deadline_;
  std::atomic<std::int64_t> started_ns_{0};  // after begun_; 0: not yet
  std::atomic<std::size_t> copied_{0};
  std::atomic<Code> failure_{Code::kOk};
};

Result<std::uint64_t> Loads::start(std::shared_ptr<Attachment> attachment, Transfer transfer, std::uint32_t start_within_ms,
                                   std::shared_ptr<const copy::Fence> after) {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (outstanding_ == kMaxLoads) return Status(Code::kResourceExhausted, "too many loads are not polled yet");
    ++outstanding_;
    ticket = ++last_ticket_;
  }
  ++running_;
  try {
    if (pool_.submit(
            std::make_shared<Job>(*this, std::move(attachment), std::move(transfer), ticket, start_within_ms, std::move(after))))
      return ticket;
  } catch (const std::bad_alloc&) {  // refused as well
  }
  --running_;
  const std::lock_guard lock(mutex_);
  --outstanding_;
  return Status(Code::kResourceExhausted, "the queue of copies is full");
}

std::vector<Completion> Loads::poll(std::size_t max, std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, wait, [this] { return !completed_.empty() || outstanding_ == 0; });
  const std::size_t count = std::min(max, completed_.size());
  std::vector<Completion> taken(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(count));
  completed_.erase(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(count));
  outstanding_ -= count;
  return taken;
}

void Loads::complete(const Completion& completion) noexcept {
  --running_;
  const std::lock_guard lock(mutex_);
  completed_.push_back(completion);
  ended_.notify_all();
}

}  // namespace larder::client
