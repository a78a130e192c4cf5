#include "sidecar/tiers/tier_front.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <iterator>

namespace larder::tiers {

// Direct I/O of the disk needs aligned addresses and sizes.
bool aligned(std::span<const std::byte> slot) {
  return reinterpret_cast<std::uintptr_t>(slot.data()) % protocol::kSlotAlignBytes == 0 &&
         slot.size() % protocol::kSlotAlignBytes == 0;
}

Status malformed_slot() {
  return {Code::kInvalidArgument, "an unaligned slot, or a slot of another size than in its facts"};
}

Status check_probe(std::size_t keys) {
  if (keys == 0) return {Code::kInvalidArgument, "a look at no key"};
  if (keys > kMaxProbeKeys) return {Code::kOutOfRange, "a look at more keys than one may ask for"};
  return {};
}

Status TierFront::open() {
  message_fd_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return message_fd_.valid() ? Status() : Status::from_errno(errno, "eventfd");
}

void TierFront::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

// All bounds in one place: operations, bytes, probes and drops. A refused operation costs a miss or
// a later write; a queue without a bound would cost memory.
Status TierFront::admissible(const Command& command) const {
  if (closed_) return {Code::kUnavailable, std::string(words_.closed)};
  const Operation operation = command.operation;
  const bool get = operation == Operation::kGet || operation == Operation::kProbe;
  const bool drop = operation == Operation::kDrop || operation == Operation::kClear;
  // A degraded tier refuses at once, with its reason. A miss is the answer to every failure; no
  // caller waits for a device.
  const TierState& state = view_.state;
  if (operation == Operation::kPut ? !state.takes_puts : get && !state.takes_gets)
    return {Code::kUnavailable, state.reason};
  const std::uint64_t bytes = command.slot.size();
  if (bytes > bounds_.bytes) return words_.too_large(bytes, bounds_.bytes);
  if (held_operations_ >= bounds_.operations || held_bytes_ + bytes > bounds_.bytes ||
      (operation == Operation::kProbe && held_probes_ >= bounds_.probes) ||
      (drop && view_.drops >= bounds_.drops))
    return {Code::kResourceExhausted, std::string(words_.too_much)};
  return {};
}

Status TierFront::refused(Status status) {
  ++refused_;
  return status;
}

Status TierFront::refuse(Status status) {
  const std::lock_guard lock(mutex_);
  return refused(std::move(status));
}

void TierFront::accept(Command command) {
  // Counted until publish() reports the slot as let go: these sums bound the memory that a stopped
  // device can tie up.
  held_bytes_ += command.slot.size();
  ++held_operations_;
  held_probes_ += command.operation == Operation::kProbe ? 1 : 0;
  enqueue(std::move(command));
}

void TierFront::enqueue(Command command) {
  commands_.push_back(std::move(command));
  if (wake_) wake_();
}

// The counter of an eventfd cannot overflow here, and a full one is readable as well: the result of
// the write does not matter.
void TierFront::tell_messages() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(message_fd_.get(), &one, sizeof(one));
}

Status TierFront::answer(Message message) {
  const std::lock_guard lock(mutex_);
  if (closed_) return refused({Code::kUnavailable, std::string(words_.closed)});
  if (!view_.state.takes_gets) return refused({Code::kUnavailable, view_.state.reason});
  // Twice: each operation in flight may still add its own message.
  if (messages_.size() >= 2 * std::size_t{bounds_.operations})
    return refused({Code::kResourceExhausted, "too many unread messages"});
  messages_.push_back(std::move(message));
  tell_messages();
  return {};
}

// Best effort: a chunk that is not forgotten here fails its checksum again at the next load.
void TierFront::forget(const ChunkKey& key, std::uint64_t generation) {
  Command command;
  command.kind = Command::Kind::kForget;
  command.key = key;
  command.facts.generation = generation;
  const std::lock_guard lock(mutex_);
  if (closed_ || commands_.size() >= 2 * std::size_t{bounds_.operations}) return;
  enqueue(std::move(command));
}

Status TierFront::evict(const ChunkKey& key) {
  Command command;
  command.kind = Command::Kind::kEvict;
  command.key = key;
  const std::lock_guard lock(mutex_);
  if (closed_) return {Code::kUnavailable, std::string(words_.closed)};
  if (view_.evictions + commands_.size() >= bounds_.evictions)
    return {Code::kResourceExhausted, std::string(words_.too_many_evictions)};
  enqueue(std::move(command));
  // The chunk is hidden in any case, and removed once the device works, unless larderd ends before.
  return view_.state.takes_puts ? Status() : Status(Code::kUnavailable, view_.state.reason);
}

void TierFront::take_messages(std::vector<Message>& out) {
  const std::lock_guard lock(mutex_);
  // Resets the eventfd under the lock, so that no message stays behind without a signal.
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(message_fd_.get(), &count, sizeof(count));
  out.insert(out.end(), std::make_move_iterator(messages_.begin()),
             std::make_move_iterator(messages_.end()));
  messages_.clear();
}

TierState TierFront::state() const {
  const std::lock_guard lock(mutex_);
  if (closed_) return {false, false, "closed", view_.state.mode};
  return view_.state;
}

TierCounters TierFront::counters() const {
  const std::lock_guard lock(mutex_);
  TierCounters counters = view_.counters;
  counters.refused += refused_;
  counters.in_flight_bytes = held_bytes_;
  return counters;
}

std::uint64_t TierFront::most_slot_bytes() const {
  const std::lock_guard lock(mutex_);
  return view_.most_slot_bytes;
}

void TierFront::close(std::uint64_t grace_ms) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  close_by_ns_ = clock_.now_ns() + grace_ms * 1'000'000;
  if (wake_) wake_();
}

bool TierFront::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool TierFront::wait_ended(std::optional<std::uint64_t> most_ms) {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  if (most_ms) return ended_changed_.wait_for(lock, std::chrono::milliseconds(*most_ms), ended);
  ended_changed_.wait(lock, ended);
  return true;
}

TierFront::Taken TierFront::take() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(commands_, {}), closed_, close_by_ns_, held_operations_};
}

void TierFront::publish(std::vector<Outcome>& outcomes, View view) {
  const std::lock_guard lock(mutex_);
  for (Outcome& outcome : outcomes) {
    // Slots count until the device has let go, which may be later than the answer (a deadline).
    held_bytes_ -= outcome.freed_bytes;
    held_operations_ -= outcome.freed ? 1 : 0;
    held_probes_ -= outcome.message.operation == Operation::kProbe ? 1 : 0;
    messages_.push_back(std::move(outcome.message));
  }
  if (!outcomes.empty()) tell_messages();
  outcomes.clear();
  view_ = std::move(view);
}

void TierFront::end() {
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  ended_ = true;
  ended_changed_.notify_all();
}

}  // namespace larder::tiers
