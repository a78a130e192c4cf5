#include "cuda/cuda_copy_engine.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "cuda/host_copy_engine.h"
#include "cuda/trial_memory.h"
#include "shim/protocol/checksum.h"

namespace larder::copy::cuda {
namespace {

DevicePtr address(const void* memory) {
  return reinterpret_cast<DevicePtr>(memory);
}

const HostLoop& host_loop() {
  static const HostLoop& fastest = *host_loops().front();
  return fastest;
}

PieceList part_of(const PieceList& list, std::size_t first, std::size_t count) {
  return {list.pieces.subspan(first, count), list.piece_bytes, nullptr};
}

// The table as it stands in the slot, where null pieces have no other.
void take_left_out(std::span<std::byte* const> pieces, std::uint64_t units, const std::byte* stored, std::uint64_t* table) {
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i] == nullptr)
      racy_copy(table + i * units, stored + i * units * sizeof(std::uint64_t), units * sizeof(std::uint64_t));
}

}  // namespace

// A Pinning that is known to the engine while it lives.
class CudaCopyEngine::Ready final : public ReadyMemory {
 public:
  Ready(std::shared_ptr<Arenas> arenas, ContextPtr context, std::span<std::byte> memory, Log log, std::size_t span_bytes)
      : arenas_(std::move(arenas)), pinning_(std::move(context), memory, std::move(log), span_bytes) {
    const std::lock_guard lock(arenas_->mutex);
    arenas_->all.push_back(&pinning_);
  }
  ~Ready() override {
    const std::lock_guard lock(arenas_->mutex);
    std::erase(arenas_->all, &pinning_);
  }
  void present(std::uint64_t bytes) override { pinning_.present(bytes); }

 private:
  const std::shared_ptr<Arenas> arenas_;
  Pinning pinning_;
};

Result<std::unique_ptr<CudaCopyEngine>> CudaCopyEngine::make(const void* page, CudaOptions options) {
  Result<ContextPtr> context = DeviceContext::of(page);
  if (!context.ok()) return context.status();
  std::unique_ptr<CudaCopyEngine> engine(new CudaCopyEngine(*context, std::move(options)));
  if (engine->options_.kernels.empty()) return engine;
  Result<std::unique_ptr<PieceKernels>> kernels = PieceKernels::load(*context, engine->options_.kernels);
  Result<std::unique_ptr<KernelLanes>> lanes = kernels.ok() ? KernelLanes::make(*context, engine->options_.kernel_blocks)
                                                            : Result<std::unique_ptr<KernelLanes>>(kernels.status());
  if (lanes.ok()) {
    engine->kernels_ = std::move(kernels).value();
    engine->lanes_ = std::move(lanes).value();
    engine->choose_ways();
  } else if (lanes.status().code() == Code::kInvalidArgument) {
    return lanes.status();
  } else {
    engine->options_.log("warning", "the copy kernels cannot be loaded (" + lanes.status().text() +
                                        "): chunks go by the copy engines, and loads through staging memory");
  }
  return engine;
}

CudaCopyEngine::CudaCopyEngine(ContextPtr context, CudaOptions options)
    : context_(std::move(context)), options_(std::move(options)), fences_(Fences::make(context_)), streams_(context_) {}

const char* CudaCopyEngine::name() const {
  switch (options_.method) {
    case Method::kBatch: return "cuda batch";
    case Method::kKernel: return "cuda kernel";
    case Method::kAuto: break;
  }
  return "cuda";
}

void CudaCopyEngine::choose_ways() {
  if (options_.method != Method::kAuto || options_.measure_ways.count() == 0) return;
  if (const std::optional<WayTable> known = options_.known->find(context_->handle(), options_.kernel_blocks)) {
    ways_ = *known;
    return options_.log("info", "GPU copies, as measured before in this process: " + ways_.in_words());
  }
  const auto start = std::chrono::steady_clock::now();
  Result<WayTable> measured = Status(Code::kResourceExhausted, "no thread can be made");
  try {
    measuring_ = std::make_unique<WayMeasuring>([this](const std::atomic<bool>& stop) { return measure(stop); });
    measured = measuring_->wait(options_.measure_ways);
  } catch (const std::system_error&) {  // said below
  }
  if (measured.status().code() != Code::kDeadlineExceeded) measuring_.reset();
  if (!measured.ok())
    return options_.log(
        "warning", "GPU copies could not be measured (" + measured.status().text() + "), a guess stands: " + ways_.in_words());
  ways_ = *measured;
  options_.known->keep(context_->handle(), options_.kernel_blocks, ways_);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  options_.log("info", "GPU copies, measured in " + std::to_string(took.count()) + " ms: " + ways_.in_words());
}

// Whole copies as the engine does them, digests included, but on memory of its own: the engine's pages are not touched.
Result<WayTable> CudaCopyEngine::measure(const std::atomic<bool>& stop) const {
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return scope.status();
  Result<std::unique_ptr<TrialMemory>> memory = TrialMemory::make(*context_, options_.measure_bytes);
  if (!memory.ok()) return memory.status();
  Result<CopyStreams::Lease> stream = streams_.take();  // goes before the memory
  if (!stream.ok()) return stream.status();
  const auto trial = [&](Direction direction, bool kernel, std::uint64_t piece_bytes) {
    const PieceList list = (*memory)->pieces(piece_bytes);
    const std::span<std::uint64_t> table = (*memory)->table(list);
    if (direction == Direction::kStore)
      return store_pinned(**stream, kernel, list, (*memory)->slot(), (*memory)->slot_on_device(), table);
    return load_pinned(**stream, kernel, (*memory)->slot(), (*memory)->slot_on_device(), list, table);
  };
  return measure_ways(trial, stop);
}

bool CudaCopyEngine::by_kernel(Direction direction, std::uint64_t piece_bytes) const {
  if (kernels_ == nullptr || options_.method == Method::kBatch) return false;
  return options_.method == Method::kKernel || ways_.by_kernel(direction, piece_bytes);
}

std::optional<DevicePtr> CudaCopyEngine::pinned(std::span<const std::byte> slot) const {
  const std::lock_guard lock(arenas_->mutex);
  for (const Pinning* arena : arenas_->all)
    if (const std::optional<DevicePtr> device = arena->device(slot)) return device;
  return std::nullopt;
}

std::size_t CudaCopyEngine::staged_pieces(const PieceList& list) const {
  return std::min<std::size_t>(list.pieces.size(), std::max<std::size_t>(1, options_.staging_bytes / list.piece_bytes));
}

Status CudaCopyEngine::noted(Status status) const {
  if (status.code() != Code::kUnavailable || ended_.exchange(true)) return status;
  options_.log("error",
               "copies from and to the GPU have ended in this engine, which goes on without the cache: " + status.text());
  return status;
}

Status CudaCopyEngine::make_tables(CopyStream& stream, std::size_t pieces, std::uint64_t piece_bytes) {
  const std::size_t digest_bytes = pieces * protocol::units_per_piece(piece_bytes) * sizeof(std::uint64_t);
  if (Status status = stream.pieces.ensure(pieces * sizeof(DevicePtr)); !status.ok()) return status;
  if (Status status = stream.digests.ensure(digest_bytes); !status.ok()) return status;
  std::memset(stream.digests.data<std::byte>(), 0, digest_bytes);  // no earlier copy's
  return {};
}

Status CudaCopyEngine::run_kernel(CopyStream& stream, Direction direction, Move move, const PieceList& list, DevicePtr packed,
                                  std::size_t first_piece) const {
  const std::uint64_t first_unit = first_piece * protocol::units_per_piece(list.piece_bytes);
  DevicePtr* const addresses = stream.pieces.data<DevicePtr>() + first_piece;
  for (std::size_t i = 0; i < list.pieces.size(); ++i) addresses[i] = address(list.pieces[i]);
  const MoveJob job{reinterpret_cast<const std::uint64_t*>(stream.pieces.device()) + first_piece,
                    reinterpret_cast<unsigned char*>(packed),
                    reinterpret_cast<std::uint64_t*>(stream.digests.device()) + first_unit, list.piece_bytes, list.pieces.size()};
  return stream.launch(*lanes_, direction,
                       [&](unsigned blocks, Handle lane) { return kernels_->launch(move, job, blocks, lane); });
}

// Queues one way to move all pieces. `packed` and `device` name the same memory, to the host and to the device.
Status CudaCopyEngine::move(CopyStream& stream, Direction direction, bool kernel, const PieceList& list, std::byte* packed,
                            DevicePtr device) const {
  const bool gather = direction == Direction::kStore;
  if (kernel) {
    if (Status status = make_tables(stream, list.pieces.size(), list.piece_bytes); !status.ok()) return status;
    return run_kernel(stream, direction, gather ? Move::kGather : Move::kScatter, list, device);
  }
  CopyList copies;
  copies.add_pieces(gather, list, packed);
  return stream.copy(copies);
}

// Queues the copies, and where the copy engines make them waits for these and queues a kernel that digests the pages.
Status CudaCopyEngine::move_and_digest(CopyStream& stream, Direction direction, bool kernel, const PieceList& list,
                                       std::byte* packed, DevicePtr device) const {
  if (Status status = move(stream, direction, kernel, list, packed, device); kernel || !status.ok()) return status;
  if (Status status = make_tables(stream, list.pieces.size(), list.piece_bytes); !status.ok()) return status;
  return run_kernel(stream, direction, Move::kDigest, list, 0);
}

// A kernel's digests are of what it stored. Behind the copy engines they are of the pages, which nobody writes meanwhile: where somebody did, or a byte went wrong
// on its way, the slot has others, and whoever loads it finds that out. Without kernels they are taken of the slot, which is this call's alone.
Status CudaCopyEngine::store_pinned(CopyStream& stream, bool kernel, const PieceList& from, std::span<std::byte> slot,
                                    DevicePtr device, std::span<std::uint64_t> table) const {
  const bool on_device = kernels_ != nullptr;
  if (Status status = on_device ? move_and_digest(stream, Direction::kStore, kernel, from, slot.data(), device)
                                : move(stream, Direction::kStore, false, from, slot.data(), device);
      !status.ok())
    return status;
  if (Status status = stream.finish(); !status.ok()) return status;
  if (on_device) {
    std::memcpy(table.data(), stream.digests.data<std::uint64_t>(), table.size_bytes());
    return {};
  }
  const std::uint64_t units = protocol::units_per_piece(from.piece_bytes);
  for (std::size_t i = 0; i < from.pieces.size(); ++i)
    protocol::piece_digests(slot.data() + i * from.piece_bytes, from.piece_bytes, table.data() + i * units);
  return {};
}

Status CudaCopyEngine::store_staged(CopyStream& stream, const PieceList& from, std::span<std::byte> slot,
                                    std::span<std::uint64_t> table) const {
  const bool kernel = by_kernel(Direction::kStore, from.piece_bytes);
  const std::uint64_t units = protocol::units_per_piece(from.piece_bytes);
  const std::size_t at_once = staged_pieces(from);
  if (Status status = stream.staging.ensure(at_once * from.piece_bytes); !status.ok()) return status;
  auto* const staging = stream.staging.data<std::byte>();
  for (std::size_t first = 0; first < from.pieces.size(); first += at_once) {
    const PieceList part = part_of(from, first, std::min(at_once, from.pieces.size() - first));
    if (Status status = move(stream, Direction::kStore, kernel, part, staging, stream.staging.device()); !status.ok())
      return status;
    if (Status status = stream.finish(); !status.ok()) return status;
    for (std::size_t i = 0; i < part.pieces.size(); ++i)
      host_loop().copy_piece(slot.data() + (first + i) * from.piece_bytes, staging + i * from.piece_bytes, from.piece_bytes,
                             table.data() + (first + i) * units, staging + i * from.piece_bytes);
  }
  host_loop().publish();
  return {};
}

// A slot may be overwritten while it is read. So digests are taken of what came to lie on the device: by the kernel that wrote it, or by one
// behind the copy engines.
Status CudaCopyEngine::load_pinned(CopyStream& stream, bool kernel, std::span<const std::byte> slot, DevicePtr device,
                                   const PieceList& to, std::span<std::uint64_t> table) const {
  if (Status status = move_and_digest(stream, Direction::kLoad, kernel, to, const_cast<std::byte*>(slot.data()), device);
      !status.ok())
    return status;
  if (Status status = stream.finish(); !status.ok()) return status;
  std::memcpy(table.data(), stream.digests.data<std::uint64_t>(), table.size_bytes());
  return {};
}

// Staging memory is this call's alone: what is digested on the way into it is what the device gets.
Status CudaCopyEngine::load_staged(CopyStream& stream, std::span<const std::byte> slot, const PieceList& to,
                                   std::span<std::uint64_t> table) const {
  const bool kernel = by_kernel(Direction::kLoad, to.piece_bytes);
  const std::uint64_t units = protocol::units_per_piece(to.piece_bytes);
  const std::size_t at_once = staged_pieces(to);
  if (Status status = stream.staging.ensure(at_once * to.piece_bytes); !status.ok()) return status;
  auto* const staging = stream.staging.data<std::byte>();
  for (std::size_t first = 0; first < to.pieces.size(); first += at_once) {
    const PieceList part = part_of(to, first, std::min(at_once, to.pieces.size() - first));
    for (std::size_t i = 0; i < part.pieces.size(); ++i)
      if (part.pieces[i] != nullptr)
        host_loop().copy_piece(staging + i * to.piece_bytes, slot.data() + (first + i) * to.piece_bytes, to.piece_bytes,
                               table.data() + (first + i) * units, slot.data() + (first + i + 1) * to.piece_bytes);
    host_loop().publish();
    if (Status status = move(stream, Direction::kLoad, kernel, part, staging, stream.staging.device()); !status.ok())
      return status;
    if (Status status = stream.finish(); !status.ok()) return status;
  }
  return {};
}

Result<std::uint64_t> CudaCopyEngine::store(const PieceList& from, std::span<std::byte> slot) const {
  if (ended_) return Status(Code::kUnavailable, "copies from and to the GPU have ended in this engine");
  std::vector<std::uint64_t> table(from.pieces.size() * protocol::units_per_piece(from.piece_bytes));
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return noted(scope.status());
  Result<CopyStreams::Lease> stream = streams_.take(from.after);
  if (!stream.ok()) return noted(stream.status());
  const std::uint64_t payload_bytes = from.pieces.size() * from.piece_bytes;
  const std::optional<DevicePtr> device = pinned(slot.first(payload_bytes));
  if (Status status = device ? store_pinned(**stream, by_kernel(Direction::kStore, from.piece_bytes), from, slot, *device, table)
                             : store_staged(**stream, from, slot, table);
      !status.ok())
    return noted(status);
  host_loop().copy_words(slot.data() + protocol::digest_table_offset(payload_bytes), table.data(), table.size());
  host_loop().publish();
  return protocol::root_digest(table.data(), table.size());
}

Status CudaCopyEngine::load(std::span<const std::byte> slot, std::uint64_t root, const PieceList& to) const {
  if (ended_) return {Code::kUnavailable, "copies from and to the GPU have ended in this engine"};
  const std::uint64_t payload_bytes = to.pieces.size() * to.piece_bytes;
  const std::uint64_t units = protocol::units_per_piece(to.piece_bytes);
  std::vector<std::uint64_t> table(to.pieces.size() * units);
  if (slot.size() < protocol::digest_table_offset(payload_bytes) + table.size() * sizeof(std::uint64_t))
    return {Code::kInvalidArgument, "slot is smaller than the pieces and their digest table"};
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return noted(scope.status());
  Result<CopyStreams::Lease> stream = streams_.take(to.after);
  if (!stream.ok()) return noted(stream.status());
  // Without kernels nothing can look at what the copy engines wrote: then it goes through staging, whose digests are as good.
  const std::optional<DevicePtr> device = kernels_ != nullptr ? pinned(slot.first(payload_bytes)) : std::nullopt;
  if (Status status = device ? load_pinned(**stream, by_kernel(Direction::kLoad, to.piece_bytes), slot, *device, to, table)
                             : load_staged(**stream, slot, to, table);
      !status.ok())
    return noted(status);
  const std::byte* const stored = slot.data() + protocol::digest_table_offset(payload_bytes);
  take_left_out(to.pieces, units, stored, table.data());
  if (protocol::root_digest(table.data(), table.size()) == root &&
      racy_equal(table.data(), stored, table.size() * sizeof(std::uint64_t)))
    return {};
  return {Code::kDataLoss, "the bytes or their digest table do not match the root"};
}

Result<std::shared_ptr<const Fence>> CudaCopyEngine::fence(void* stream) const {
  if (ended_) return Status(Code::kUnavailable, "copies from and to the GPU have ended in this engine");
  Result<std::shared_ptr<const Fence>> fence = fences_->record(stream);
  if (!fence.ok()) return noted(fence.status());
  return fence;
}

std::unique_ptr<ReadyMemory> CudaCopyEngine::make_ready(std::span<std::byte> memory) const {
  return std::make_unique<Ready>(arenas_, context_, memory, options_.log, options_.pin_span_bytes);
}

}  // namespace larder::copy::cuda

namespace larder::copy {

Result<std::uint64_t> device_of(const void* page) {
  const Result<cuda::ContextPtr> context = cuda::DeviceContext::of(page);
  if (context.ok()) return reinterpret_cast<std::uint64_t>((*context)->handle());
  if (context.status().code() == Code::kNotFound) return std::uint64_t{0};
  return context.status();
}

Result<std::unique_ptr<CopyEngine>> device_copy_engine(const void* page, Log log) {
  cuda::CudaOptions options;
  options.log = std::move(log);
  Result<std::unique_ptr<cuda::CudaCopyEngine>> made = cuda::CudaCopyEngine::make(page, std::move(options));
  if (!made.ok()) return made.status();
  return std::unique_ptr<CopyEngine>(std::move(made).value());
}

}  // namespace larder::copy
