#include "sidecar/transfer/transfer_region.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <climits>

#include "shim/protocol/version.h"
#include "sidecar/base/file_limit.h"

namespace larder::transfer {

using protocol::CopyState;

Result<TransferMemory> TransferMemory::create() {
  TransferMemory made;
  made.fd_ = Fd(::memfd_create("larder-transfer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.fd_.valid()) return Status::from_errno(errno, "memfd_create for a transfer region");
  const int fd = made.fd_.get();
  // As for the session region: another user must not open the memfd through /proc.
  if (::fchmod(fd, 0600) != 0 || ::ftruncate(fd, static_cast<off_t>(size_bytes())) != 0 ||
      // Sealed against resizing, as an engine could otherwise kill larderd by SIGBUS.
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return base::file_failure(errno, "size and seal a transfer region");
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  // The lock of a process ends with the process, even by SIGKILL. An engine that waits for a copy
  // asks for the lock, and stops waiting once larderd is dead.
  if (::fcntl(fd, F_SETLK, &lock) != 0) return Status::from_errno(errno, "lock a transfer region");
  Result<Mapping> mapping =
      Mapping::map_shared(made.fd_, size_bytes(), PROT_READ | PROT_WRITE, "transfer region");
  if (!mapping.ok()) return mapping.status();
  made.mapping_ = std::move(*mapping);
  // Written before the descriptor goes to the engine.
  made.region().magic = protocol::kTransferMagic;
  made.region().version_major = protocol::kVersionMajor;
  made.region().version_minor = protocol::kVersionMinor;
  return made;
}

bool TransferMemory::take(std::uint32_t flag) {
  auto asked = static_cast<std::uint32_t>(CopyState::kAsked);
  // An exchange and no store: the engine may cancel at the same moment, and only one of both may
  // win.
  return region().flags[flag].state.compare_exchange_strong(
      asked, static_cast<std::uint32_t>(CopyState::kTaken));
}

bool TransferMemory::cancelled(std::uint32_t flag) {
  return region().flags[flag].state.load(std::memory_order_acquire) ==
         static_cast<std::uint32_t>(CopyState::kCancelled);
}

void TransferMemory::end(std::uint32_t flag, Code code, std::uint64_t root) {
  protocol::CopyFlag& at = region().flags[flag];
  // The result first, the state last with release: an engine that sees kEnded also sees the result.
  at.code.store(static_cast<std::uint32_t>(code), std::memory_order_relaxed);
  at.root.store(root, std::memory_order_relaxed);
  at.state.store(static_cast<std::uint32_t>(CopyState::kEnded), std::memory_order_release);
  // Shared between processes, so without FUTEX_PRIVATE_FLAG.
  ::syscall(SYS_futex, &at.state, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace larder::transfer
