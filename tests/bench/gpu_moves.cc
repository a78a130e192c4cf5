#include "tests/bench/gpu_moves.h"

#include <cstdio>
#include <functional>
#include <latch>

namespace larder::bench {
namespace {

using namespace copy;
using Clock = std::chrono::steady_clock;

// until an arena is registered, in the product's slices
constexpr auto kPatience = std::chrono::seconds(60);

class EngineMoves final : public GpuMoves {
 public:
  EngineMoves(GpuField& field, std::unique_ptr<cuda::CudaCopyEngine> engine)
      : GpuMoves(field), engine_(std::move(engine)) {}

  Status prepare() {
    ready_ = engine_->make_ready(field_.arena());
    ready_->present(field_.arena().size());
    const Clock::time_point deadline = Clock::now() + kPatience;
    while (!engine_->is_pinned(field_.arena())) {
      if (Clock::now() > deadline) return {Code::kDeadlineExceeded, "the arena was not registered"};
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (std::size_t i = 0; i < field_.chunks(); ++i) {
      const Result<std::uint64_t> root = engine_->store(field_.chunk(i), field_.slot(i));
      if (!root.ok()) return root.status();
      roots_.push_back(*root);
    }
    return {};
  }

  std::string strategy() const override { return engine_->strategy().in_words(); }

  Status move(Direction direction, std::size_t chunk) override {
    if (direction == Direction::kLoad)
      return engine_->load(field_.slot(chunk), roots_[chunk], field_.chunk(chunk));
    const Result<std::uint64_t> root = engine_->store(field_.chunk(chunk), field_.slot(chunk));
    if (!root.ok()) return root.status();
    return *root == roots_[chunk]
               ? Status()
               : Status(Code::kDataLoss, "a store gave another root than the first one");
  }

 private:
  const std::unique_ptr<cuda::CudaCopyEngine> engine_;
  std::unique_ptr<ReadyMemory> ready_;  // goes before the engine
  std::vector<std::uint64_t> roots_;
};

// The first failure of several threads.
class Failure {
 public:
  void note(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (first_.ok()) first_ = status;
    failed_ = true;
  }
  explicit operator bool() const { return failed_; }
  Status status() const { return first_; }

 private:
  std::mutex mutex_;
  std::atomic<bool> failed_{false};
  Status first_;
};

// The given number of threads, which begin together. Seconds from then to the end of the last;
// `start` is set before any begins.
double together(unsigned threads, Clock::time_point& start,
                const std::function<void(unsigned)>& work) {
  std::latch ready(threads + 1), go(1);
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      ready.count_down();
      go.wait();
      work(i);
    });
  ready.arrive_and_wait();
  start = Clock::now();
  go.count_down();
  for (std::thread& one : all) one.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Result<std::unique_ptr<GpuMoves>> engine_moves(GpuField& field, cuda::Method method,
                                               unsigned kernel_blocks) {
  if (method != cuda::Method::kBatch && cuda::built_in_kernels().empty())
    return Status(Code::kUnsupported, "built without NVIDIA's compiler (make deps-cuda)");
  cuda::CudaOptions options;
  options.method = method;
  options.kernel_blocks = kernel_blocks;
  options.log = [](std::string_view level, std::string_view text) {
    std::fprintf(stderr, "%s: %s\n", std::string(level).c_str(), std::string(text).c_str());
  };
  Result<std::unique_ptr<cuda::CudaCopyEngine>> engine =
      cuda::CudaCopyEngine::make(field.pages(), options);
  if (!engine.ok()) return engine.status();
  auto made = std::make_unique<EngineMoves>(field, std::move(engine).value());
  if (Status status = made->prepare(); !status.ok()) return status;
  return std::unique_ptr<GpuMoves>(std::move(made));
}

Result<double> one_way(GpuMoves& moves, Direction direction, unsigned callers) {
  const std::size_t chunks = moves.field().chunks();
  std::atomic<std::size_t> next{0};
  Failure failure;
  Clock::time_point start;
  const double seconds = together(callers, start, [&](unsigned) {
    for (std::size_t i = next++; i < chunks && !failure; i = next++)
      if (Status status = moves.move(direction, i); !status.ok()) failure.note(status);
  });
  if (failure) return failure.status();
  return seconds;
}

Result<BothEnds> both_ways(GpuMoves& moves, unsigned callers, std::size_t copies) {
  struct Side {
    Direction direction;
    std::size_t first, count;  // chunks
    std::vector<double> ends;
    std::atomic<std::size_t> begun{0}, done{0};
  };
  const std::size_t half = moves.field().chunks() / 2;
  const std::size_t most = kMostApart * copies;
  Side sides[2] = {{Direction::kLoad, 0, half, std::vector<double>(most)},
                   {Direction::kStore, half, half, std::vector<double>(most)}};
  Failure failure;
  Clock::time_point start;
  together(2 * callers, start, [&](unsigned number) {
    Side& side = sides[number % 2];
    while (!failure && (sides[0].done < copies || sides[1].done < copies)) {
      const std::size_t chunk = side.first + side.begun++ % side.count;
      if (Status status = moves.move(side.direction, chunk); !status.ok()) failure.note(status);
      const double now = std::chrono::duration<double>(Clock::now() - start).count();
      const std::size_t ended = side.done++;
      if (ended < most)
        side.ends[ended] = now;
      else
        failure.note({Code::kOutOfRange, "one side has ended " + std::to_string(most) +
                                             " copies before the other had " +
                                             std::to_string(copies)});
    }
  });
  if (failure) return failure.status();
  for (Side& side : sides) side.ends.resize(side.done);
  return BothEnds{std::move(sides[0].ends), std::move(sides[1].ends)};
}

PacedMoves::PacedMoves(GpuMoves& moves, Direction direction, double bytes_per_s, unsigned callers)
    : moves_(moves),
      direction_(direction),
      each_(static_cast<double>(moves.field().chunk_bytes()) / bytes_per_s),
      start_(Clock::now()) {
  for (unsigned i = 0; i < callers; ++i) threads_.emplace_back([this] { run(); });
}

PacedMoves::~PacedMoves() {
  stop();
}

void PacedMoves::run() {
  for (;;) {
    const std::size_t number = begun_++;
    {
      std::unique_lock lock(mutex_);
      const auto due =
          start_ + std::chrono::duration_cast<Clock::duration>(each_ * static_cast<double>(number));
      if (stopped_.wait_until(lock, due, [this] { return stop_; })) return;
    }
    const Status status = moves_.move(direction_, number % moves_.field().chunks());
    if (status.ok()) {
      ++done_;
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
    stop_ = true;
    stopped_.notify_all();
    return;
  }
}

void PacedMoves::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Result<double> PacedMoves::end() {
  stop();
  if (!status_.ok()) return status_;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return static_cast<double>(done_ * moves_.field().chunk_bytes()) / seconds;
}

}  // namespace larder::bench
