#include "tests/sim/sim_disk.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace larder::sim {

void SimDisk::resize(std::uint64_t bytes) {
  now_.resize(bytes);
  safe_.resize(bytes);
}

void SimDisk::read(std::uint64_t offset, std::span<std::byte> to) const {
  std::copy_n(now_.data() + offset, to.size(), to.data());
}

std::uint64_t SimDisk::begin(std::uint64_t offset, Bytes bytes) {
  if (on_begin) on_begin(offset, bytes.size());
  flying_.emplace(next_, Write{offset, std::move(bytes)});
  return next_++;
}

void SimDisk::land(std::uint64_t number) {
  const auto found = flying_.find(number);
  apply(found->second, now_);
  landed_.emplace(++landings_, std::move(found->second));
  flying_.erase(found);
}

// The landed part counts like any write: a power loss may tear it again, and a sync makes it safe.
void SimDisk::land_torn(std::uint64_t number, Random& random) {
  const auto found = flying_.find(number);
  Write& write = found->second;
  const std::uint64_t end = std::min<std::uint64_t>(now_.size(), write.offset + write.bytes.size());
  apply_torn(write, now_, random);
  if (write.offset < end)
    write.bytes.assign(now_.begin() + static_cast<long>(write.offset),
                       now_.begin() + static_cast<long>(end));
  landed_.emplace(++landings_, std::move(write));
  flying_.erase(found);
}

void SimDisk::end_sync(std::uint64_t began) {
  while (!landed_.empty() && landed_.begin()->first <= began) {
    apply(landed_.begin()->second, safe_);
    landed_.erase(landed_.begin());
  }
}

SimDisk SimDisk::as_it_is() const {
  SimDisk copy;
  copy.now_ = copy.safe_ = now_;
  return copy;
}

SimDisk SimDisk::after_power_loss(Random& random) const {
  SimDisk left;
  left.safe_ = safe_;
  for (const auto* writes : {&landed_, &flying_})
    for (const auto& [number, write] : *writes) apply_torn(write, left.safe_, random);
  left.now_ = left.safe_;
  return left;
}

void SimDisk::damage(std::uint64_t offset, std::span<const std::byte> bytes) {
  for (Bytes* image : {&now_, &safe_})
    std::copy(bytes.begin(), bytes.end(), image->begin() + static_cast<long>(offset));
}

void SimDisk::apply(const Write& write, Bytes& to) {
  if (write.offset >= to.size()) return;
  std::memcpy(to.data() + write.offset, write.bytes.data(),
              std::min<std::uint64_t>(write.bytes.size(), to.size() - write.offset));
}

void SimDisk::apply_torn(const Write& write, Bytes& to, Random& random) {
  const std::uint64_t how = below(random, 6);
  if (how == 0) return;
  if (how == 1) return apply(write, to);
  const std::size_t piece = how % 2 == 0 ? kSectorBytes : kBlockBytes;
  const std::uint64_t pieces = (write.bytes.size() + piece - 1) / piece;
  const std::uint64_t first = below(random, pieces + 1);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    if (how < 4 ? i >= first : one_in(random, 2)) continue;
    const std::size_t at = i * piece, size = std::min(piece, write.bytes.size() - at);
    if (write.offset + at + size <= to.size())
      std::memcpy(to.data() + write.offset + at, write.bytes.data() + at, size);
  }
}

}  // namespace larder::sim
