// CudaCopyEngine: the CopyEngine for KV pages on a CUDA device, inside the engine's process and
// context.
//
// Slots in registered memory (pinning.h) are copied directly. Other slots go through pinned staging
// memory. Two ways exist: `batch` uses the copy engines of the device, one call for many pieces;
// `kernel` uses a few multiprocessors and digests on the way. Only small pieces may go by kernels,
// as measured when the engine is made (strategy_table.h).
//
// Each call waits for its fence on the host, queues its work, and returns when all work is done.
// All copies by the device's copy engines share the lanes of copy_lanes.h, and all kernels those of
// kernel_lanes.h.
//
// Thread-safe. A CUDA error ends all copies of this engine for good, with one line in the log;
// later calls answer kUnavailable. Exceptions: lack of memory, and a refusal during the capture of
// a graph.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/copy_engine.h"
#include "cuda/copy_lanes.h"
#include "cuda/copy_stream.h"
#include "cuda/fences.h"
#include "cuda/piece_kernels.h"
#include "cuda/piece_tables.h"
#include "cuda/pinning.h"
#include "cuda/strategy_calibration.h"

namespace larder::copy::cuda {

enum class Method { kAuto, kBatch, kKernel };

struct CudaOptions {
  Method method = Method::kAuto;
  StrategyTable strategies;  // for kAuto without a measurement
  // The longest time that make() waits for the measurement. 0: no measurement.
  std::chrono::milliseconds calibrate_strategies{2000};
  std::size_t measure_bytes = 8 << 20;          // of device memory and of pinned memory
  KnownWays* known = &KnownWays::of_process();  // outlives the engine
  // Multiprocessors for all kernels together. 0: blocks_of() of the device.
  unsigned kernel_blocks = 0;
  KernelImages kernels = built_in_kernels();
  // For each copy under way; at least one piece.
  std::size_t staging_bytes = 16 << 20;
  RegistrationOptions registration;
  Log log = [](std::string_view, std::string_view) {};
};

class CudaCopyEngine final : public CopyEngine {
 public:
  // Makes an engine for pages in the context of `page`. Measures the ways, unless this process has
  // measured the context before, and logs the choice. If the measurement fails or takes too long,
  // the constants of StrategyTable stand. kNotFound: the page lies on no CUDA device. Throws
  // std::bad_alloc.
  static Result<std::unique_ptr<CudaCopyEngine>> make(const void* page, CudaOptions options);

  const char* name() const override;
  Result<std::uint64_t> store(const PieceList& from, std::span<std::byte> slot) const override;
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const PieceList& to) const override;
  Status load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes,
                    const Fence* after) const override;
  Status digests(const PieceList& of, std::span<std::uint64_t> table) const override;
  Result<std::shared_ptr<const Fence>> fence(void* stream) const override;
  bool outlives_process() const override { return true; }
  void prepare(std::uint64_t piece_bytes, std::size_t pieces, unsigned threads) const override;
  std::uint64_t joined_bytes() const override { return kJoinedBytes; }
  protocol::CopyStrategy strategy() const override;
  std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte> memory,
                                          int file = -1) const override;

  // Bytes that one call of load_parts() queues at once: one run of copies (in batches, see
  // CopyLanes), one run of digests, and a wait for each. Beyond this size the cost of another wait
  // is negligible.
  static constexpr std::uint64_t kJoinedBytes = 32 << 20;
  // Bytes that one kernel moves; one piece may be larger. A kernel of the model that needs every
  // multiprocessor waits for at most one launch. A kernel moves at the rate of the link.
  //
  // A digesting kernel reads the device's own memory, several times faster, and takes up to
  // kJoinedBytes. Beside products of matrices each launch waits for the end of the model's kernel:
  // on an H100, launches of 4 MiB held copies at 0.37 of the link, and of 32 MiB at 0.52, while a
  // decoding model lost less (docs/design/decisions/0012-large-digest-launches.md).
  static constexpr std::uint64_t kLaunchBytes = 4 << 20;
  // The multiprocessors for Larder's kernels on a device with `processors` of them: one in 16, at
  // least 1 and at most 8.
  static unsigned blocks_of(unsigned processors);

  // The chosen way for each size.
  const StrategyTable& strategies() const { return strategies_; }
  // Whether copies of this slot are direct now. For tests and benchmarks.
  bool is_pinned(std::span<const std::byte> slot) const { return !pinned(slot).empty(); }

 private:
  // The arenas under registration: one, or two while the first is taken back.
  struct Arenas {
    std::mutex mutex;
    std::vector<const Pinning*> all;
  };
  class Ready;

  CudaCopyEngine(ContextPtr context, CudaOptions options);
  void choose_strategies();
  Result<StrategyTable> measure(const std::atomic<bool>& stop) const;
  bool by_kernel(Direction direction, std::uint64_t piece_bytes) const;
  bool kernels_allowed() const;
  DeviceRange pinned(std::span<const std::byte> slot) const;
  std::size_t staged_pieces(std::size_t pieces, std::uint64_t piece_bytes) const;
  // Queues kernels over the pieces, kLaunchBytes each, or kJoinedBytes if they digest only.
  Status run_kernels(CopyStream& stream, Move move, CopyStream::Behind behind,
                     const NamedPieces& pieces, DevicePtr packed) const;
  Status store_pinned(CopyStream& stream, bool kernel, const PieceList& from,
                      std::span<std::byte> slot, const DeviceRange& device,
                      std::span<std::uint64_t> table) const;
  Status store_staged(CopyStream& stream, const PieceList& from, std::span<std::byte> slot,
                      std::span<std::uint64_t> table) const;
  Status load_pinned(CopyStream& stream, bool kernel, const DeviceRange& device,
                     const PieceList& to, std::span<std::uint64_t> table) const;
  Status load_staged(CopyStream& stream, std::span<const std::byte> slot, const PieceList& to,
                     std::span<std::uint64_t> table) const;
  // Parts in registered slots, with one wait for all.
  struct DirectPart {
    const ChunkPart* part;
    DeviceRange device;
  };
  Status load_parts_pinned(CopyStream& stream, std::span<const DirectPart> parts,
                           std::uint64_t piece_bytes) const;
  Status load_part_staged(CopyStream& stream, const ChunkPart& part,
                          std::uint64_t piece_bytes) const;
  Status move(CopyStream& stream, Direction direction, bool kernel, const PieceList& list,
              const DeviceRange& device) const;
  Status move_and_digest(CopyStream& stream, Direction direction, bool kernel,
                         const PieceList& list, const DeviceRange& device) const;
  // Ends the copies of this engine if the status is a CUDA error. No call is retried, because the
  // context may be lost. Lack of memory and a refusal during a capture fail one copy only.
  Status noted(Status status) const;

  const ContextPtr context_;
  const CudaOptions options_;
  unsigned kernel_blocks_ = 0;
  std::unique_ptr<PieceKernels> kernels_;  // nullptr: all copies go by batch
  std::unique_ptr<KernelLanes> lanes_;     // set with kernels_
  mutable std::atomic<bool> ended_{false};
  const std::shared_ptr<Arenas> arenas_ = std::make_shared<Arenas>();
  const std::shared_ptr<Fences> fences_;
  mutable BatchUse batches_;
  std::unique_ptr<CopyLanes> copy_lanes_;  // set by make()
  // Streams whose copies go by the lanes.
  mutable std::unique_ptr<CopyStreams> streams_;
  StrategyTable strategies_ = options_.strategies;
  // Set only after a measurement that took too long. Destroyed before the members that it uses.
  std::unique_ptr<StrategyCalibration> measuring_;
};

}  // namespace larder::copy::cuda
