#include "shim/client/copy_flags.h"

#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <chrono>
#include <thread>

namespace larder::client {
namespace {

using protocol::CopyState;
using Clock = std::chrono::steady_clock;

constexpr long kLookNs = 50'000'000;  // the interval at which a waiter checks that larderd lives

CopyState state_of(const protocol::CopyFlag& flag) {
  return static_cast<CopyState>(flag.state.load(std::memory_order_acquire));
}

void sleep_on(protocol::CopyFlag& flag, CopyState seen) {
  const timespec at_most{0, kLookNs};
  // Without FUTEX_PRIVATE_FLAG, because another process wakes us. std::atomic::wait() does not
  // work across processes.
  ::syscall(SYS_futex, &flag.state, FUTEX_WAIT, static_cast<std::uint32_t>(seen), &at_most, nullptr,
            0);
}

}  // namespace

Result<std::unique_ptr<CopyFlags>> CopyFlags::open(Fd region, std::uint64_t size_bytes) {
  struct stat file {};
  if (size_bytes < sizeof(protocol::TransferRegion) || ::fstat(region.get(), &file) != 0 ||
      static_cast<std::uint64_t>(file.st_size) < size_bytes)
    return Status(Code::kInvalidArgument, "EXPORTED: the transfer region is too small");
  Result<Mapping> mapping = Mapping::map_shared(region, sizeof(protocol::TransferRegion),
                                                PROT_READ | PROT_WRITE, "transfer region");
  if (!mapping.ok()) return mapping.status();
  // The descriptor came over a socket, and might be of any file.
  if (reinterpret_cast<const protocol::TransferRegion*>(mapping->data())->magic !=
      protocol::kTransferMagic)
    return Status(Code::kInvalidArgument, "EXPORTED: no transfer region");
  return std::unique_ptr<CopyFlags>(new CopyFlags(std::move(region), *std::move(mapping)));
}

// A cancelled flag is free again when larderd has set it to `ended`.
// A linear search over a small table: a copy takes a thousand times longer.
std::optional<std::uint32_t> CopyFlags::take() {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < taken_.size(); ++i) {
    const CopyState state = state_of(at(i));
    if (taken_[i] || (state != CopyState::kIdle && state != CopyState::kEnded)) continue;
    taken_[i] = true;
    at(i).state.store(static_cast<std::uint32_t>(CopyState::kAsked), std::memory_order_release);
    return i;
  }
  return std::nullopt;
}

void CopyFlags::give_back(std::uint32_t flag) {
  const std::lock_guard lock(mutex_);
  // larderd never saw the COPY, so nobody else writes this word.
  at(flag).state.store(static_cast<std::uint32_t>(CopyState::kIdle), std::memory_order_release);
  taken_[flag] = false;
}

bool CopyFlags::cancel(std::uint32_t flag) {
  auto asked = static_cast<std::uint32_t>(CopyState::kAsked);
  // The exchange decides between larderd, which begins the copy, and this thread. Only one of the
  // two succeeds.
  if (!at(flag).state.compare_exchange_strong(asked,
                                              static_cast<std::uint32_t>(CopyState::kCancelled)))
    return false;
  const std::lock_guard lock(mutex_);
  taken_[flag] = false;
  return true;
}

Result<std::uint64_t> CopyFlags::wait(std::uint32_t flag) {
  const auto begun_by = Clock::now() + std::chrono::milliseconds(protocol::kCopyTakenMs);
  for (;;) {
    const CopyState state = state_of(at(flag));
    if (state == CopyState::kEnded) return ended(flag);
    // A begun copy has no deadline: the pages must not be reused under the copy.
    if (state == CopyState::kAsked && Clock::now() >= begun_by && cancel(flag))
      return Status(Code::kDeadlineExceeded, "larderd did not begin the copy in time");
    sleep_on(at(flag), state);
    if (larderd_lives() || state_of(at(flag)) == CopyState::kEnded) continue;
    if (cancel(flag)) return Status(Code::kDeadlineExceeded, "larderd is gone");
    // The copy had begun, and larderd's GPU may go on for a moment after the process.
    std::this_thread::sleep_for(std::chrono::milliseconds(protocol::kDeviceSettlingMs));
    return Status(Code::kDeadlineExceeded, "larderd died in the midst of a copy");
  }
}

Result<std::uint64_t> CopyFlags::ended(std::uint32_t flag) {
  const auto code = static_cast<Code>(at(flag).code.load(std::memory_order_relaxed));
  // Ordered by the acquire load of the state, which larderd stored last.
  const std::uint64_t root = at(flag).root.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  taken_[flag] = false;
  if (code != Code::kOk) return Status(code, "larderd could not copy");
  return root;
}

// larderd keeps a record lock on the region; the engine never takes such a lock.
bool CopyFlags::larderd_lives() const {
  // The kernel drops the lock with the process, so even SIGKILL shows within kLookNs.
  return record_lock_held(fd_);
}

}  // namespace larder::client
