#include "sidecar/memory/session_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <utility>

#include "shim/protocol/version.h"
#include "sidecar/base/file_limit.h"

namespace larder::memory {

Result<SessionMemory> SessionMemory::create() {
  constexpr std::size_t kBytes = sizeof(protocol::SessionRegion);
  SessionMemory memory;
  memory.fd = Fd(::memfd_create("larder-session", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd.valid()) return Status::from_errno(errno, "memfd_create for a session");
  const int fd = memory.fd.get();
  // A memfd starts with mode 0777: another user could open it through /proc.
  if (::fchmod(fd, 0600) != 0 || ::ftruncate(fd, kBytes) != 0 ||
      // The seals forbid resizing: an engine that shrinks the memfd would kill larderd with SIGBUS.
      // F_SEAL_SEAL forbids a later F_SEAL_WRITE.
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return base::file_failure(errno, "size and seal a session region");
  Result<Mapping> mapping =
      Mapping::map_shared(memory.fd, kBytes, PROT_READ | PROT_WRITE, "session region");
  if (!mapping.ok()) return mapping.status();
  memory.mapping = std::move(*mapping);
  auto* region = reinterpret_cast<protocol::SessionRegion*>(memory.mapping.data());
  // The engine checks magic and version before anything else, because its library may be older or
  // newer.
  region->magic = protocol::kSessionMagic;
  region->version_major = protocol::kVersionMajor;
  region->version_minor = protocol::kVersionMinor;
  return memory;
}

}  // namespace larder::memory
