// CudaCopyEngine: the CopyEngine of KV pages on a CUDA device, inside the engine's own process and context.
//
// Between pages and a slot that Pinning has registered it copies directly; other slots go through pinned staging memory of its own. It has
// two ways to move, `batch` (the copy engines of the device, one call a chunk) and `kernel` (few multiprocessors, digests on the way). Small pieces alone may go by
// kernels, as it has measured when it was made (strategy_table.h). Each call copies on a stream of its own, behind its fence, its kernels run on the
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
#include "cuda/strategy_calibration.h"

namespace larder::copy::cuda {

enum class Method { kAuto, kBatch, kKernel };

struct CudaOptions {
  Method method = Method::kAuto;
  StrategyTable strategies;                              // of kAuto, where it measures nothing
  std::chrono::milliseconds calibrate_strategies{2000};  // make() waits so long at most for that; 0: it does not measure
  std::size_t measure_bytes = 8 << 20;                   // of device memory and of pinned memory, for that
  KnownWays* known = &KnownWays::of_process();           // outlives the engine
  unsigned kernel_blocks = 0;  // multiprocessors that all copies together take at most, at least 2; 0: as blocks_of() says
  KernelImages kernels = built_in_kernels();
  std::size_t staging_bytes = 16 << 20;  // of each copy that is under way; at least one piece
  RegistrationOptions registration;
  Log log = [](std::string_view, std::string_view) {};
};

class CudaCopyEngine final : public CopyEngine {
 public:
  // For pages in the context of `page`. kNotFound: it lies on no CUDA device. kInvalidArgument: less than 2 `kernel_blocks`. Measures the ways where this process has not done so for the
  // context yet, and logs what it chose: the constants of StrategyTable, where measuring fails or takes too long. Throws std::bad_alloc.
  static Result<std::unique_ptr<CudaCopyEngine>> make(const void* page, CudaOptions options);

  const char* name() const override;
  Result<std::uint64_t> store(const PieceList& from, std::span<std::byte> slot) const override;
  Status load(std::span<const std::byte> slot, std::uint64_t root, const PieceList& to) const override;
  Status load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes, const Fence* after) const override;
  Status digests(const PieceList& of, std::span<std::uint64_t> table) const override;
  Result<std::shared_ptr<const Fence>> fence(void* stream) const override;
  bool outlives_process() const override { return true; }
  void prepare(std::uint64_t piece_bytes, std::size_t pieces, unsigned threads) const override;
  std::uint64_t joined_bytes() const override { return kJoinedBytes; }
  protocol::CopyStrategy strategy() const override;
  std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte> memory, int file = -1) const override;

  // That one call of load_parts() queues at once: above that a wait costs nothing any more.
  static constexpr std::uint64_t kJoinedBytes = 32 << 20;
  // That one kernel moves or digests at most, but for one piece: a kernel of the model that needs every multiprocessor waits for no longer than that takes.
  static constexpr std::uint64_t kLaunchBytes = 4 << 20;
  // That stores have under way by the copy engines at most, all threads together: the GPU copies in the order in which copies are ready, and the engine's own
  // small ones (the tokens of a step) wait behind it. Loads are not held up so: a request waits for them.
  static constexpr std::uint64_t kStoreBatchBytes = 4 << 20;
  // Multiprocessors for our kernels on a device that has so many: one in 16, of 2 to 8.
  static unsigned blocks_of(unsigned processors);

  // Which way pieces go.
  const StrategyTable& strategies() const { return strategies_; }
  // Whether copies of this slot are direct by now. For tests and benchmarks.
  bool is_pinned(std::span<const std::byte> slot) const { return !pinned(slot).empty(); }

 private:
  // The arenas that are being registered: one, or a second while the first is let go.
  struct Arenas {
    std::mutex mutex;
    std::vector<const Pinning*> all;
  };
  class Ready;

  CudaCopyEngine(ContextPtr context, CudaOptions options);
  Result<unsigned> count_blocks() const;
  void choose_strategies();
  Result<StrategyTable> measure(const std::atomic<bool>& stop) const;
  bool by_kernel(Direction direction, std::uint64_t piece_bytes) const;
  bool kernels_allowed() const;
  DeviceRange pinned(std::span<const std::byte> slot) const;
  std::size_t staged_pieces(std::size_t pieces, std::uint64_t piece_bytes) const;
  // Pieces whose addresses stand in the stream's tables.
  struct Named {
    Direction direction;
    std::size_t first, count;
    std::uint64_t piece_bytes;
  };
  static Status make_tables(CopyStream& stream, std::size_t pieces, std::uint64_t piece_bytes);
  // REQUIRES: make_tables() for all of them.
  static Named name_pieces(CopyStream& stream, Direction direction, const PieceList& list, std::size_t first = 0);
  // Queues kernels over them, of kLaunchBytes each.
  Status run_kernels(CopyStream& stream, Move move, CopyStream::Behind behind, const Named& pieces, DevicePtr packed) const;
  Status store_pinned(CopyStream& stream, bool kernel, const PieceList& from, std::span<std::byte> slot,
                      const DeviceRange& device, std::span<std::uint64_t> table) const;
  Status store_staged(CopyStream& stream, const PieceList& from, std::span<std::byte> slot, std::span<std::uint64_t> table) const;
  Status load_pinned(CopyStream& stream, bool kernel, const DeviceRange& device, const PieceList& to,
                     std::span<std::uint64_t> table) const;
  Status load_staged(CopyStream& stream, std::span<const std::byte> slot, const PieceList& to,
                     std::span<std::uint64_t> table) const;
  // Parts whose slots are registered, by one wait for all.
  struct DirectPart {
    const ChunkPart* part;
    DeviceRange device;
  };
  Status load_parts_pinned(CopyStream& stream, std::span<const DirectPart> parts, std::uint64_t piece_bytes) const;
  Status load_part_staged(CopyStream& stream, const ChunkPart& part, std::uint64_t piece_bytes) const;
  Status store_in_turns(CopyStream& stream, const CopyList& copies) const;
  Status move(CopyStream& stream, Direction direction, bool kernel, const PieceList& list, const DeviceRange& device) const;
  Status move_and_digest(CopyStream& stream, Direction direction, bool kernel, const PieceList& list,
                         const DeviceRange& device) const;
  // What a failed call means for the next ones.
  Status noted(Status status) const;

  const ContextPtr context_;
  const CudaOptions options_;
  unsigned kernel_blocks_ = 0;
  std::unique_ptr<PieceKernels> kernels_;  // or nullptr
  std::unique_ptr<KernelLanes> lanes_;     // where there are kernels
  mutable std::atomic<bool> ended_{false};
  const std::shared_ptr<Arenas> arenas_ = std::make_shared<Arenas>();
  const std::shared_ptr<Fences> fences_;
  mutable CopyStreams streams_;
  mutable std::mutex storing_;  // whose batch of a store is under way
  StrategyTable strategies_ = options_.strategies;
  std::unique_ptr<StrategyCalibration> measuring_;  // only where it was too late; it goes before what it uses
};

}  // namespace larder::copy::cuda
