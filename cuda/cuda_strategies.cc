// The choice between the two ways of CUDA's engine, and of the number of multiprocessors: given by
// options, or measured when the engine is made.
#include <algorithm>
#include <system_error>

#include "cuda/cuda_copy_engine.h"
#include "cuda/trial_memory.h"

namespace larder::copy::cuda {
namespace {

// Of each thread that measures.
Result<std::vector<std::unique_ptr<TrialMemory>>> trial_memory(const DeviceContext& context,
                                                               std::size_t bytes) {
  std::vector<std::unique_ptr<TrialMemory>> memory;
  for (std::size_t i = 0; i < kTrialThreads; ++i) {
    Result<std::unique_ptr<TrialMemory>> part = TrialMemory::make(context, bytes / kTrialThreads);
    if (!part.ok()) return part.status();
    memory.push_back(std::move(part).value());
  }
  return memory;
}

Result<std::vector<CopyStreams::Lease>> trial_streams(CopyStreams& all) {
  std::vector<CopyStreams::Lease> streams;
  for (std::size_t i = 0; i < kTrialThreads; ++i) {
    Result<CopyStreams::Lease> stream = all.take();
    if (!stream.ok()) return stream.status();
    streams.push_back(std::move(stream).value());
  }
  return streams;
}

}  // namespace

unsigned CudaCopyEngine::blocks_of(unsigned processors) {
  return std::clamp(processors / 16, 1U, 8U);
}

void CudaCopyEngine::choose_strategies() {
  if (options_.method != Method::kAuto || options_.calibrate_strategies.count() == 0) return;
  if (const std::optional<StrategyTable> known =
          options_.known->find(context_->handle(), kernel_blocks_)) {
    strategies_ = *known;
    return options_.log("info", "GPU copies, as measured before in this process: " +
                                    strategies_.in_use().in_words());
  }
  const auto start = std::chrono::steady_clock::now();
  Result<StrategyTable> measured = Status(Code::kResourceExhausted, "no thread can be made");
  try {
    measuring_ = std::make_unique<StrategyCalibration>(
        [this](const std::atomic<bool>& stop) { return measure(stop); });
    measured = measuring_->wait(options_.calibrate_strategies);
  } catch (const std::system_error&) {  // logged below
  }
  if (measured.status().code() != Code::kDeadlineExceeded) measuring_.reset();
  if (!measured.ok())
    return options_.log("warning", "GPU copies could not be measured (" + measured.status().text() +
                                       "), a guess stands: " + strategies_.in_use().in_words());
  strategies_ = *measured;
  options_.known->keep(context_->handle(), kernel_blocks_, strategies_);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  options_.log("info", "GPU copies, measured in " + std::to_string(took.count()) +
                           " ms: " + strategies_.in_use().in_words());
}

// Measures whole copies, digests included, by as many threads as an engine has. The copies use
// memory of their own and never touch the engine's pages. They also use streams of their own,
// without the order of CopyLanes: the rate is that of the way alone, and no copy of the engine
// stands behind a measurement that takes too long. The result is a steady rate: the time of a
// single copy would mainly show its waits.
Result<StrategyTable> CudaCopyEngine::measure(const std::atomic<bool>& stop) const {
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return scope.status();
  const auto memory = trial_memory(*context_, options_.measure_bytes);
  if (!memory.ok()) return memory.status();
  CopyStreams alone(context_, batches_);
  const auto streams = trial_streams(alone);  // destroyed before the memory
  if (!streams.ok()) return streams.status();
  const auto copy = [&](std::size_t number, Direction direction, bool kernel,
                        std::uint64_t piece_bytes) {
    const ContextScope own(context_->driver(), context_->handle());
    if (!own.status().ok()) return own.status();
    TrialMemory& part = *(*memory)[number];
    const PieceList list = part.pieces(piece_bytes);
    const std::span<std::uint64_t> table = part.table(list);
    if (direction == Direction::kStore)
      return store_pinned(*(*streams)[number], kernel, list, part.slot(), part.slot_on_device(),
                          table);
    return load_pinned(*(*streams)[number], kernel, part.slot_on_device(), list, table);
  };
  return calibrate_strategies(
      [&](Direction direction, bool kernel, std::uint64_t piece_bytes) {
        return steady_rate(
            kTrialThreads, memory->front()->slot().size(), stop,
            [&](std::size_t number) { return copy(number, direction, kernel, piece_bytes); });
      },
      stop);
}

protocol::CopyStrategy CudaCopyEngine::strategy() const {
  using Kind = protocol::CopyStrategy::Kind;
  if (kernels_ == nullptr) return {Kind::kNoKernels, 0, 0};
  if (!kernels_allowed()) return {Kind::kNotRegistered, 0, 0};
  // The largest piece size that the status can carry; by_kernel() uses kernels for all sizes.
  constexpr std::uint64_t kAllBytes = (16 << 20) - 1024;
  if (options_.method == Method::kBatch) return {Kind::kChosen, 0, 0};
  if (options_.method == Method::kKernel) return {Kind::kChosen, kAllBytes, kAllBytes};
  return strategies_.in_use();
}

// Where registration is not allowed, pinned memory may be far from the GPU, and a kernel would
// fetch each page separately.
bool CudaCopyEngine::kernels_allowed() const {
  const std::lock_guard lock(arenas_->mutex);
  return std::ranges::none_of(arenas_->all,
                              [](const Pinning* arena) { return arena->not_allowed(); });
}

bool CudaCopyEngine::by_kernel(Direction direction, std::uint64_t piece_bytes) const {
  if (kernels_ == nullptr || options_.method == Method::kBatch || !kernels_allowed()) return false;
  return options_.method == Method::kKernel || strategies_.by_kernel(direction, piece_bytes);
}

}  // namespace larder::copy::cuda
