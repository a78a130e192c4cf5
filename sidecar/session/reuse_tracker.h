// ReuseTracker: feeds the chunks that engines request into the estimate of other memory sizes
// (sidecar/sizing) and into the trace.
//
// The input is bounded: kChunksPerTick chunks count for the estimate, further requests of the tick
// are left out. Owned by the thread of the loop; page() may be called from any thread.
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
  static constexpr std::size_t kChunksPerTick = 16'384;  // the last request of a tick counts whole
  static constexpr std::uint64_t kHalfLifeMs =
      30ULL * 60 * 1000;  // after this time a request counts half

  // `namespaces` outlives this object.
  ReuseTracker(std::uint64_t memory_bytes, const store::NamespaceTable& namespaces)
      : curve_(memory_bytes), namespaces_(namespaces) {}

  void tick(std::uint64_t now_ms);
  // A request in this namespace. `hashes`: the first 8 bytes of the hash of each chunk. REQUIRES:
  // the namespace is open.
  void asked(std::uint32_t handle, std::span<const std::uint64_t> hashes, std::uint64_t tokens,
             std::uint64_t tokens_hit);
  // Chunks that engines store. States are left out: no request names them. REQUIRES: the namespace
  // is open.
  void stored(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  // The start of a drop of one namespace, or of all namespaces.
  void dropped(std::uint32_t handle);
  void dropped() { curve_.dropped(); }

  void fill(stats::Estimate& estimate) const { curve_.fill(estimate); }
  stats::TracePage page(std::optional<std::uint64_t> from, std::uint64_t now_ms) {
    return traced_.page(from, now_ms);
  }

 private:
  void trace(const store::Namespace& space, std::uint64_t chunk_bytes,
             std::span<const std::uint64_t> hashes, std::uint64_t tokens, std::uint64_t tokens_hit);

  sizing::ReuseCurve curve_;
  const store::NamespaceTable& namespaces_;
  TraceBuffer traced_;
  std::size_t left_ = kChunksPerTick;
  std::uint64_t now_ms_ = 0;
};

}  // namespace larder::session
