// CudaCopyEngine: the CopyEngine of KV pages on a CUDA device, inside the engine's own process and context.
//
// Between pages and a slot that Pinning has registered it copies directly; other slots go through pinned staging memory of its own. It has
// two ways to move, `batch` (the copy engines of the device, one call a chunk) and `kernel` (few multiprocessors, digests on the way), and
// picks by direction and the size of the pieces, as it has measured when it was made. Each call copies on a stream of its own, behind its fence, its kernels run on the
// lanes of all (kernel_lanes.h), and it returns when all of it is done.
// Thread-safe. A CUDA error other than lack of memory, and than a refusal while a graph is captured, ends it for good: it says so once, and from then on answers
// kUnavailable.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/copy_stream.h"
#include "cuda/fences.h"
#include "cuda/piece_kernels.h"
#include "cuda/pinning.h"
#include "cuda/way_measuring.h"

namespace larder::copy::cuda {

enum class Method { kAuto, kBatch, kKernel };

struct CudaOptions {
  Method method = Method::kAuto;
  WayTable ways;                                // of kAuto, where it measures nothing
  std::chrono::milliseconds measure_ways{200};  // make() waits so long at most for that; 0: it does not measure
  std::size_t measure_bytes = 8 << 20;          // that one trial moves, of device memory and of pinned memory; at least 2 MiB
  KnownWays* known = &KnownWays::of_process();  // outlives the engine
  unsigned kernel_blocks = 8;                   // multiprocessors that all copies together take at most; at least 2
  KernelImages kernels = built_in_kernels();
  std::size_t staging_bytes = 16 << 20;  // of each copy that is under way; at least one piece
  std::size_t pin_span_bytes = Pinning::kSpanBytes;
  Log log = [](std::string_view, std::string_view) {};
};

class CudaCopyEngine final : public CopyEngine {
 public:
  // For pages in the context of `page`. kNotFound: it lies on no CUDA device. kInvalidArgument: less than 2 `kernel_blocks`. Measures the ways where this process has not done so for the
  // context yet, and logs what it chose: the constants of WayTable, where measuring fails or takes too long. Throws std::bad_alloc.
  static Result<std::unique_ptr<CudaCopyEngine>> make(const void* page, CudaOptions options);

  const char* name() const override;
  Result<std::uint64_t> store(const PieceList& from, std::span<std::byte> slot) const override;
  Status load(std::span<const std::byte> slot, std::uint64_t root, const PieceList& to) const override;
  Status load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes, const Fence* after) const override;
  Status digests(const PieceList& of, std::span<std::uint64_t> table) const override;
  Result<std::shared_ptr<const Fence>> fence(void* stream) const override;
  bool outlives_process() const override { return true; }
  std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte> memory) const override;

  // Which way pieces go.
  const WayTable& ways() const { return ways_; }
  // Whether copies of this slot are direct by now. For tests and benchmarks.
  bool is_pinned(std::span<const std::byte> slot) const { return pinned(slot).has_value(); }

 private:
  // The arenas that are being registered: one, or a second while the first is let go.
  struct Arenas {
    std::mutex mutex;
    std::vector<const Pinning*> all;
  };
  class Ready;

  CudaCopyEngine(ContextPtr context, CudaOptions options);
  void choose_ways();
  Result<WayTable> measure(const std::atomic<bool>& stop) const;
  bool by_kernel(Direction direction, std::uint64_t piece_bytes) const;
  std::optional<DevicePtr> pinned(std::span<const std::byte> slot) const;
  std::size_t staged_pieces(const PieceList& list) const;
  // Queues kernels over lists that follow each other in the stream's tables. REQUIRES of run_kernel(): make_tables() for all of them.
  static Status make_tables(CopyStream& stream, std::size_t pieces, std::uint64_t piece_bytes);
  Status run_kernel(CopyStream& stream, Direction direction, Move move, const PieceList& list, DevicePtr packed,
                    std::size_t first_piece = 0) const;
  Status store_pinned(CopyStream& stream, bool kernel, const PieceList& from, std::span<std::byte> slot, DevicePtr device,
                      std::span<std::uint64_t> table) const;
  Status store_staged(CopyStream& stream, const PieceList& from, std::span<std::byte> slot, std::span<std::uint64_t> table) const;
  Status load_pinned(CopyStream& stream, bool kernel, std::span<const std::byte> slot, DevicePtr device, const PieceList& to,
                     std::span<std::uint64_t> table) const;
  Status load_staged(CopyStream& stream, std::span<const std::byte> slot, const PieceList& to,
                     std::span<std::uint64_t> table) const;
  // Parts whose slots are registered, by one wait for all.
  Status load_parts_pinned(CopyStream& stream, std::span<const ChunkPart* const> parts, std::span<const DevicePtr> devices,
                           std::uint64_t piece_bytes) const;
  Status load_part_staged(CopyStream& stream, const ChunkPart& part, std::uint64_t piece_bytes) const;
  Status move(CopyStream& stream, Direction direction, bool kernel, const PieceList& list, std::byte* packed,
              DevicePtr device) const;
  Status move_and_digest(CopyStream& stream, Direction direction, bool kernel, const PieceList& list, std::byte* packed,
                         DevicePtr device) const;
  // What a failed call means for the next ones.
  Status noted(Status status) const;

  const ContextPtr context_;
  const CudaOptions options_;
  std::unique_ptr<PieceKernels> kernels_;  // or nullptr
  std::unique_ptr<KernelLanes> lanes_;     // where there are kernels
  mutable std::atomic<bool> ended_{false};
  const std::shared_ptr<Arenas> arenas_ = std::make_shared<Arenas>();
  const std::shared_ptr<Fences> fences_;
  mutable CopyStreams streams_;
  WayTable ways_ = options_.ways;
  std::unique_ptr<WayMeasuring> measuring_;  // only where it was too late; it goes before what it uses
};

}  // namespace larder::copy::cuda
