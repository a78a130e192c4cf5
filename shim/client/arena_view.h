// ArenaView: this process's mapping of the arena, shared by attachments to all lives of larderd
// that serve the same file.
//
// A restarted larderd keeps the arena, so its engines keep the mapping: present pages stay present,
// and memory registered for DMA stays registered. The mapping goes with the last attachment.
// Thread-safe: immutable except for prefault(), look_ahead() and make_ready(), which only the
// control thread calls.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "cuda/copy_engine.h"
#include "shim/base/fd.h"
#include "shim/client/prefault.h"

namespace larder::client {

class ArenaView {
 public:
  ArenaView(Mapping mapping, Fd fd, const struct stat& file)
      : mapping_(std::move(mapping)),
        fd_(std::move(fd)),
        device_(file.st_dev),
        inode_(file.st_ino),
        prefault_(mapping_.size()) {}

  // Whether the view maps size_bytes of this very file. The mapping keeps the inode number taken,
  // so no other file can have the same number.
  bool maps(const struct stat& file, std::uint64_t size_bytes) const {
    return device_ == file.st_dev && inode_ == file.st_ino && mapping_.size() == size_bytes;
  }
  std::byte* data() const { return mapping_.data(); }
  std::size_t size() const { return mapping_.size(); }
  // Registers the arena with `engine` at the first call, and more of it as more is present.
  // `engine` outlives the view.
  void make_ready(const copy::CopyEngine& engine, std::uint64_t present_bytes) {
    if (!asked_) ready_ = engine.make_ready({mapping_.data(), mapping_.size()}, fd_.get());
    asked_ = true;
    if (ready_ != nullptr) ready_->present(std::min<std::uint64_t>(present_bytes, mapping_.size()));
  }
  // See copy::ReadyMemory. REQUIRES: the caller has the last reference.
  void take_back_slowly() {
    if (ready_ != nullptr) ready_->take_back_slowly();
  }
  // The registered bytes.
  std::uint64_t ready_bytes() const { return ready_ == nullptr ? 0 : ready_->ready_bytes(); }
  void prefault(std::uint64_t offset_bytes, std::span<std::byte> slot) {
    prefault_.ensure(offset_bytes, slot);
  }
  // See Prefault.
  template <typename Wanted>
  void look_ahead(const protocol::IndexReader& index, const Wanted& wanted) {
    prefault_.look_ahead(index, {mapping_.data(), mapping_.size()}, wanted);
  }

 private:
  const Mapping mapping_;
  const Fd fd_;  // processes take turns at registration by a lock on this file (cuda/turn.h)
  const dev_t device_;
  const ino_t inode_;
  Prefault prefault_;
  bool asked_ = false;
  std::unique_ptr<copy::ReadyMemory> ready_;  // last: destroyed before the mapping and its file
};

}  // namespace larder::client
