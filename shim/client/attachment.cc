#include "shim/client/attachment.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "shim/base/test_point.h"
#include "shim/protocol/lock_layout.h"

namespace larder::client {
namespace {

// A region shorter than announced would raise SIGBUS later.
Status check_size(const Fd& fd, std::uint64_t size_bytes, const std::string& what) {
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return Status::from_errno(errno, "fstat of the " + what);
  // A longer file is fine: a later larderd may append fields to a region.
  if (static_cast<std::uint64_t>(file.st_size) < size_bytes)
    return {Code::kDataLoss, "the " + what + " has " + std::to_string(file.st_size) +
                                 " bytes, larderd announced " + std::to_string(size_bytes)};
  return {};
}

Result<Mapping> map_region(const Fd& fd, std::uint64_t size_bytes, int prot,
                           const std::string& what) {
  if (Status status = check_size(fd, size_bytes, what); !status.ok()) return status;
  return Mapping::map_shared(fd, size_bytes, prot, what);
}

// The process holds the lock while the descriptor is open; a forked child does not inherit the
// lock.
Status take_lock(const Fd& fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_SETLK, &lock) != 0)
    return Status::from_errno(errno, "fcntl(F_SETLK) on the session's lock file");
  return {};
}

// The mapping of `earlier` if it has the same file, else a new one.
Result<std::shared_ptr<ArenaView>> view_of(Fd fd, std::uint64_t size_bytes,
                                           const std::shared_ptr<ArenaView>& earlier) {
  if (Status status = check_size(fd, size_bytes, "arena"); !status.ok()) return status;
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return Status::from_errno(errno, "fstat of the arena");
  // A restarted larderd serves the same file. The engine keeps page tables and the registration
  // with CUDA.
  if (earlier && earlier->maps(file, size_bytes)) return earlier;
  Result<Mapping> mapping = Mapping::map_shared(fd, size_bytes, PROT_READ | PROT_WRITE, "arena");
  if (!mapping.ok()) return mapping.status();
  return std::make_shared<ArenaView>(*std::move(mapping), std::move(fd), file);
}

}  // namespace

bool Attachment::tell_device_writes() {
  // A store asks before each chunk, so the usual answer costs no system call.
  if (device_writes_told_.load(std::memory_order_relaxed)) return true;
  const std::uint8_t yes = 1;
  // In the lock file and not in a message: larderd reads the file after the death of this process.
  if (::pwrite(lock_.get(), &yes, sizeof(yes), protocol::kDeviceWritesOffset) != sizeof(yes))
    return false;
  device_writes_told_.store(true, std::memory_order_relaxed);
  return true;
}

Attachment::Attachment(const protocol::Welcome& welcome, Regions regions, Fd socket,
                       std::shared_ptr<const Fd> wake)
    : welcome_(welcome),
      lock_(std::move(regions.lock)),
      arena_(std::move(regions.arena)),
      index_(std::move(regions.index)),
      session_(std::move(regions.session)),
      residency_(std::move(regions.residency)),
      holds_(region()),
      events_(region()),
      outbox_(std::move(socket), std::move(wake)) {
  // No namespace is open yet. A key of an unopened namespace must miss, and never match handle 0.
  for (auto& handle : handles_) handle = protocol::pack_halves(0, kNoHandle);
}

void Attachment::prefault_ahead() {
  arena_->look_ahead(reader_, [this](const protocol::Key& key) {
    const auto named = [&key](const auto& handle) {
      return protocol::high_half(handle.load(std::memory_order_relaxed)) == key.namespace_handle;
    };
    // Only chunks of this client's namespaces: other engines' chunks would fill this process's
    // page tables for no use.
    return key.namespace_handle != kNoHandle && std::ranges::any_of(handles_, named);
  });
}

Attachment::~Attachment() {
  LARDER_POINT(attachment_ends);
}

Result<std::shared_ptr<Attachment>> Attachment::make(const protocol::Welcome& welcome,
                                                     std::vector<Fd> fds, Fd socket,
                                                     std::shared_ptr<const Fd> wake,
                                                     const Attachment* earlier) {
  const bool has_residency = (welcome.capabilities & protocol::kCapabilityResidency) != 0;
  // Exactly: a missing descriptor would shift the meaning of the others.
  const std::size_t wanted = has_residency ? 5 : 4;
  if (fds.size() != wanted)
    return Status(Code::kInvalidArgument, "WELCOME brought " + std::to_string(fds.size()) +
                                              " descriptors, not " + std::to_string(wanted));
  if (welcome.session_bytes < sizeof(protocol::SessionRegion))
    return Status(Code::kInvalidArgument, "WELCOME: session region too small");
  Result<std::shared_ptr<ArenaView>> arena =
      view_of(std::move(fds[0]), welcome.arena_bytes, earlier ? earlier->arena_ : nullptr);
  if (!arena.ok()) return arena.status();
  Result<Mapping> index = map_region(fds[1], welcome.index_bytes, PROT_READ, "index");
  if (!index.ok()) return index.status();
  Result<Mapping> session =
      map_region(fds[2], welcome.session_bytes, PROT_READ | PROT_WRITE, "session region");
  if (!session.ok()) return session.status();
  Result<protocol::IndexReader> reader = protocol::IndexReader::open(index->data(), index->size());
  if (!reader.ok()) return reader.status();
  Mapping residency;
  protocol::ResidencyReader residency_reader;
  if (has_residency) {
    Result<Mapping> mapped =
        map_region(fds[4], welcome.residency_bytes, PROT_READ, "residency filter");
    if (!mapped.ok()) return mapped.status();
    residency = *std::move(mapped);
    Result<protocol::ResidencyReader> opened =
        protocol::ResidencyReader::open(residency.data(), residency.size());
    if (!opened.ok()) return opened.status();
    residency_reader = *opened;
  }
  LARDER_POINT(regions_mapped);
  // After the mappings: larderd takes a held lock as the sign of possible writers.
  if (Status locked = take_lock(fds[3]); !locked.ok()) return locked;
  LARDER_POINT(locked);

  std::shared_ptr<Attachment> attachment(
      new Attachment(welcome,
                     {std::move(fds[3]), *std::move(arena), *std::move(index), *std::move(session),
                      std::move(residency)},
                     std::move(socket), std::move(wake)));
  attachment->reader_ = *reader;
  attachment->residency_reader_ = residency_reader;
  return attachment;
}

}  // namespace larder::client
