// ArenaView: this process's mapping of the arena, shared by all attachments to lives of larderd that serve the same file.
//
// A restarted larderd goes on with the arena of the one before it, and so do its engines: pages that were made present, and memory
// that was registered for DMA, stay so. The mapping goes with the last attachment. Immutable but for prefault(), look_ahead() and
// make_ready(), which are the control thread's: thread-safe.
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
      : mapping_(std::move(mapping)), fd_(std::move(fd)), device_(file.st_dev), inode_(file.st_ino), prefault_(mapping_.size()) {}

  // Whether it maps so many bytes of this very file. While it does, no other file has the same number.
  bool maps(const struct stat& file, std::uint64_t size_bytes) const {
    return device_ == file.st_dev && inode_ == file.st_ino && mapping_.size() == size_bytes;
  }
  std::byte* data() const { return mapping_.data(); }
  std::size_t size() const { return mapping_.size(); }
  // Once, and then as more of it is present. The control thread's; `engine` outlives this.
  void make_ready(const copy::CopyEngine& engine, std::uint64_t present_bytes) {
    if (!asked_) ready_ = engine.make_ready({mapping_.data(), mapping_.size()}, fd_.get());
    asked_ = true;
    if (ready_ != nullptr) ready_->present(std::min<std::uint64_t>(present_bytes, mapping_.size()));
  }
  // See copy::ReadyMemory. REQUIRES: nobody else has it any more.
  void take_back_slowly() {
    if (ready_ != nullptr) ready_->take_back_slowly();
  }
  // How much of it is ready by now.
  std::uint64_t ready_bytes() const { return ready_ == nullptr ? 0 : ready_->ready_bytes(); }
  // The control thread's.
  void prefault(std::uint64_t offset_bytes, std::span<std::byte> slot) { prefault_.ensure(offset_bytes, slot); }
  // See Prefault. The control thread's.
  template <typename Wanted>
  void look_ahead(const protocol::IndexReader& index, const Wanted& wanted) {
    prefault_.look_ahead(index, {mapping_.data(), mapping_.size()}, wanted);
  }

 private:
  const Mapping mapping_;
  const Fd fd_;  // by which processes take turns (cuda/turn.h)
  const dev_t device_;
  const ino_t inode_;
  Prefault prefault_;
  bool asked_ = false;
  std::unique_ptr<copy::ReadyMemory> ready_;  // goes before the mapping and its file
};

}  // namespace larder::client
