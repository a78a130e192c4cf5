#include "sidecar/tiers/plugin/region.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <iterator>

#include "shim/protocol/limits.h"
#include "sidecar/base/file_limit.h"

namespace larder::plugin {

Result<BounceRegion> BounceRegion::create(std::uint64_t bytes) {
  BounceRegion region;
  region.fd_ = Fd(::memfd_create("larder-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!region.fd_.valid()) return Status::from_errno(errno, "memfd_create for a plug-in");
  const int fd = region.fd_.get();
  // 0600: another user must not open the memfd through /proc. The seals: a plug-in could otherwise
  // kill larderd by SIGBUS.
  if (::fchmod(fd, 0600) != 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return base::file_failure(errno, "size and seal the region of a plug-in");
  Result<Mapping> mapping =
      Mapping::map_shared(region.fd_, bytes, PROT_READ | PROT_WRITE, "region of a plug-in");
  if (!mapping.ok()) return mapping.status();
  region.mapping_ = *std::move(mapping);
  region.free_.emplace(0, bytes);
  return region;
}

BounceRegion::~BounceRegion() {
  // A stopped plug-in keeps its mapping, so the end of the own mapping alone would free no memory.
  if (fd_.valid())
    ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(mapping_.size()));
}

// First fit: most pieces have one size, so a linear search meets a fitting run soon.
std::optional<Piece> BounceRegion::take(std::uint64_t bytes) {
  const std::uint64_t page = protocol::kSlotAlignBytes;
  const std::uint64_t wanted = (bytes + page - 1) / page * page;
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    if (run->second < wanted) continue;
    const auto [offset, size] = *run;
    free_.erase(run);
    if (size > wanted) free_.emplace(offset + wanted, size - wanted);
    return Piece{offset, wanted};
  }
  return std::nullopt;
}

void BounceRegion::give_back(const Piece& piece) {
  // Runs side by side become one, else a region would fall apart into pieces of old sizes.
  auto run = free_.emplace(piece.offset, piece.bytes).first;
  if (const auto next = std::next(run);
      next != free_.end() && run->first + run->second == next->first) {
    run->second += next->second;
    free_.erase(next);
  }
  if (run == free_.begin()) return;
  const auto before = std::prev(run);
  if (before->first + before->second != run->first) return;
  before->second += run->second;
  free_.erase(run);
}

}  // namespace larder::plugin
