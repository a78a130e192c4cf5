// ReuseTracker: what engines ask for, chunk by chunk: the estimate of what more memory would bring, and the trace.
//
// What engines tell is bounded here: so many chunks a tick count for the estimate, the others are left out with their request. Owned by
// the loop's thread; page() may be called from any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "shim/protocol/key.h"
#include "sidecar/session/trace_buffer.h"
#include "sidecar/sizing/reuse_curve.h"
#include "sidecar/store/namespace_table.h"

namespace larder::session {

class ReuseTracker {
 public:
  static constexpr std::size_t kChunksPerTick = 16'384;            // a request that was begun counts whole
  static constexpr std::uint64_t kHalfLifeMs = 30ULL * 60 * 1000;  // after which what was asked counts half

  // `namespaces` outlives it.
  ReuseTracker(std::uint64_t memory_bytes, const store::NamespaceTable& namespaces)
      : curve_(memory_bytes), namespaces_(namespaces) {}

  void tick(std::uint64_t now_ms);
  // A request in this namespace, with the first 8 bytes of its chunks' hashes. REQUIRES: the namespace is open.
  void asked(std::uint32_t handle, std::span<const std::uint64_t> hashes, std::uint64_t tokens, std::uint64_t tokens_hit);
  // Chunks that engines store. The same.
  void stored(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  // A drop of the namespace begins; of all.
  void dropped(std::uint32_t handle);
  void dropped() { curve_.dropped(); }

  void fill(stats::Estimate& estimate) const { curve_.fill(estimate); }
  stats::TracePage page(std::optional<std::uint64_t> from, std::uint64_t now_ms) { return traced_.page(from, now_ms); }

 private:
  void trace(const store::Namespace& space, std::uint64_t chunk_bytes, std::span<const std::uint64_t> hashes,
             std::uint64_t tokens, std::uint64_t tokens_hit);

  sizing::ReuseCurve curve_;
  const store::NamespaceTable& namespaces_;
  TraceBuffer traced_;
  std::size_t left_ = kChunksPerTick;
  std::uint64_t now_ms_ = 0;
};

}  // namespace larder::session
