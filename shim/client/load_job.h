// LoadJob: one load on the copy pool: the deadline, the places of the chunks in the arena, the end.
// The subclasses define the parts: whole chunks (loads.cc) or layers (layer_load.h).
//
// Thread-safe as CopyPool requires. Alive until the last thread has stopped writing its pages.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/copy_engine.h"
#include "shim/client/attachment.h"
#include "shim/client/copy_pool.h"
#include "shim/client/layout.h"
#include "shim/client/sidecar_copies.h"

namespace larder::client {

struct Completion {
  std::uint64_t ticket = 0;
  Code status = Code::kOk;
  std::uint64_t bytes = 0;
  std::uint64_t wait_ns = 0;  // for a thread, and for the engine's work before the fence
  std::uint64_t copy_ns = 0;
};

// The arguments of one load. `after` may be null.
struct LoadOrder {
  std::shared_ptr<Attachment> attachment;
  Transfer transfer;
  std::uint32_t start_within_ms = 0;
  std::shared_ptr<const copy::Fence> after;
  std::uint64_t ticket = 0;
};

// Shared by all loads, and outlives them. `ended` is called once a load, and must not throw.
struct LoadRoom {
  const copy::CopyEngine& engine;
  const NamespaceSpec& spec;
  const std::vector<GroupPages>& pages;
  std::function<void(const Completion&)> ended;
  SidecarCopies* sidecar = nullptr;  // asks larderd to copy whole chunks; may be nullptr
};

class LoadJob : public CopyJob {
 public:
  LoadJob(const LoadRoom& room, LoadOrder&& order, std::size_t parts);
  bool copy(std::size_t part) final;
  void finished() final;
  // kOk while nothing has failed.
  Code failure() const { return failure_; }

 protected:
  using Clock = std::chrono::steady_clock;
  // A chunk that was found and is held, so larderd does not hand its slot on.
  struct Source {
    protocol::EntryView view;
    std::span<const std::byte> slot;
    std::optional<Held> held;
  };

  // Adds the copied bytes to bytes_. May throw.
  virtual Code copy_part(std::size_t part) = 0;
  // Called after all parts have ended, before the completion.
  virtual void ending(bool well) { static_cast<void>(well); }

  Code find(std::size_t chunk, Source& source);
  // Whether the slot still has the chunk that was found. Call this after the copy, under the hold.
  bool still_there(const Source& source) const;
  // The code of a copy that ended with `copied`; reports a damaged chunk (BAD).
  Code ended_as(const Status& copied, const Source& source, bool still_there);
  // Reports a use. REQUIRES: of a prompt the last chunk first, because the last use counts most,
  // and a tail is useless without its head.
  void touch(const protocol::EntryView& view);
  // The pieces of a chunk on the engine's pages.
  void pieces_of(std::size_t chunk, std::vector<std::byte*>& pieces) const;
  const Transfer& transfer() const { return order_.transfer; }
  const Group& group() const { return group_; }
  const copy::CopyEngine& engine() const { return room_.engine; }
  // Loads a whole chunk, by larderd or by the engine's own copy engine.
  Status load_chunk(const Source& source, const copy::PieceList& to);
  const copy::Fence* after() const { return order_.after.get(); }

  std::atomic<std::uint64_t> bytes_{0};

 private:
  static constexpr std::int64_t kTooLate = -1;
  bool start();
  void await_fence();
  void send_bad(const protocol::EntryView& view);
  void report(const Completion& done);

  const LoadRoom& room_;
  LoadOrder order_;
  const Group& group_;
  // At the start of the load; closing the namespace does not end the load.
  const std::uint32_t handle_;
  const std::size_t part_count_;
  const Clock::time_point begun_;
  const Clock::time_point deadline_;
  std::atomic<std::int64_t> started_ns_{0};  // after begun_; 0: not yet
  std::atomic<std::int64_t> copying_ns_{0};  // the same, after the fence
  std::atomic<std::size_t> parts_copied_{0};
  std::atomic<Code> failure_{Code::kOk};
};

}  // namespace larder::client
