#include "cuda/cuda_copy_engine.h"

#include <algorithm>
#include <cstring>

#include "cuda/host_copy_engine.h"
#include "shim/protocol/checksum.h"

namespace larder::copy::cuda {
namespace {

// For staging memory, which the host hashes on the way in or out.
const HostLoop& host_loop() {
  static const HostLoop& fastest = *host_loops().front();
  return fastest;
}

PieceList part_of(const PieceList& list, std::size_t first, std::size_t count) {
  return {list.pieces.subspan(first, count), list.piece_bytes, nullptr};
}

// Takes the digests of null pieces from the slot's table, the only source for them.
void take_left_out(std::span<std::byte* const> pieces, std::uint64_t units, const std::byte* stored,
                   std::uint64_t* table) {
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i] == nullptr)
      racy_copy(table + i * units, stored + i * units * sizeof(std::uint64_t),
                units * sizeof(std::uint64_t));
}

// The number of multiprocessors for kernels, by those of the device.
// From the device: a fixed number would take too many multiprocessors from a small GPU.
Result<unsigned> default_blocks(const DeviceContext& context) {
  const Driver& driver = context.driver();
  const ContextScope scope(driver, context.handle());
  if (!scope.status().ok()) return scope.status();
  int device = 0, processors = 0;
  if (Status status = driver.status(driver->ctx_get_device(&device), "cuCtxGetDevice");
      !status.ok())
    return status;
  if (Status status =
          driver.status(driver->device_get_attribute(&processors, kProcessorCount, device),
                        "cuDeviceGetAttribute");
      !status.ok())
    return status;
  return CudaCopyEngine::blocks_of(static_cast<unsigned>(std::max(processors, 0)));
}

}  // namespace

// A Pinning that the engine consults as long as the Pinning exists.
class CudaCopyEngine::Ready final : public ReadyMemory {
 public:
  Ready(std::shared_ptr<Arenas> arenas, ContextPtr context, std::span<std::byte> memory, Log log,
        const RegistrationOptions& options, int file)
      : arenas_(std::move(arenas)),
        pinning_(std::move(context), memory, std::move(log), options, file) {
    const std::lock_guard lock(arenas_->mutex);
    // Shared state and not the engine: the engine may be destroyed before the memory is taken
    // back.
    arenas_->all.push_back(&pinning_);
  }
  ~Ready() override {
    const std::lock_guard lock(arenas_->mutex);
    std::erase(arenas_->all, &pinning_);
  }
  void present(std::uint64_t bytes) override { pinning_.present(bytes); }
  void take_back_slowly() override { pinning_.take_back_slowly(); }
  std::uint64_t ready_bytes() const override { return pinning_.ready_bytes(); }

 private:
  const std::shared_ptr<Arenas> arenas_;
  Pinning pinning_;
};

Result<std::unique_ptr<CudaCopyEngine>> CudaCopyEngine::make(const void* page,
                                                             CudaOptions options) {
  Result<ContextPtr> context = DeviceContext::of(page);
  if (!context.ok()) return context.status();
  std::unique_ptr<CudaCopyEngine> engine(new CudaCopyEngine(*context, std::move(options)));
  Result<std::unique_ptr<CopyLanes>> copy_lanes = CopyLanes::make(*context);
  if (!copy_lanes.ok()) return copy_lanes.status();
  engine->copy_lanes_ = std::move(copy_lanes).value();
  engine->streams_ =
      std::make_unique<CopyStreams>(*context, engine->batches_, engine->copy_lanes_.get());
  // A build without NVRTC: everything works, and loads go through staging memory.
  if (engine->options_.kernels.empty()) return engine;
  const unsigned wanted = engine->options_.kernel_blocks;
  const Result<unsigned> blocks = wanted != 0 ? wanted : default_blocks(**context);
  if (!blocks.ok()) return blocks.status();
  engine->kernel_blocks_ = *blocks;
  Result<std::unique_ptr<PieceKernels>> kernels =
      PieceKernels::load(*context, engine->options_.kernels);
  Result<std::unique_ptr<KernelLanes>> lanes =
      kernels.ok() ? KernelLanes::make(*context, *blocks)
                   : Result<std::unique_ptr<KernelLanes>>(kernels.status());
  if (lanes.ok()) {
    // Both or none: kernels without lanes would have no bound on the multiprocessors.
    engine->kernels_ = std::move(kernels).value();
    engine->lanes_ = std::move(lanes).value();
    engine->choose_strategies();
  } else {
    engine->options_.log("warning",
                         "the copy kernels cannot be loaded (" + lanes.status().text() +
                             "): chunks go by the copy engines, and loads through staging memory");
  }
  return engine;
}

CudaCopyEngine::CudaCopyEngine(ContextPtr context, CudaOptions options)
    : context_(std::move(context)),
      options_(std::move(options)),
      // Shared with each fence, which an engine's request may hold longer than this object lives.
      fences_(Fences::make(context_)),
      batches_(options_.log) {}

const char* CudaCopyEngine::name() const {
  switch (options_.method) {
    case Method::kBatch: return "cuda batch";
    case Method::kKernel: return "cuda kernel";
    case Method::kAuto: break;
  }
  return "cuda";
}

DeviceRange CudaCopyEngine::pinned(std::span<const std::byte> slot) const {
  const std::lock_guard lock(arenas_->mutex);
  for (const Pinning* arena : arenas_->all)
    if (DeviceRange device = arena->device(slot); !device.empty()) return device;
  return {};
}

void CudaCopyEngine::prepare(std::uint64_t piece_bytes, std::size_t pieces,
                             unsigned threads) const {
  // load_parts() joins chunks up to kJoinedBytes, so the tables must hold that many pieces.
  const std::size_t most = std::max<std::size_t>(pieces, kJoinedBytes / piece_bytes);
  CopyStreams::Sizes bytes;
  bytes.staging = staged_pieces(pieces, piece_bytes) * piece_bytes;
  if (kernels_ != nullptr) {
    bytes.pieces = most * sizeof(DevicePtr);
    bytes.digests = most * protocol::units_per_piece(piece_bytes) * sizeof(std::uint64_t);
  }
  if (Status status = streams_->reserve(threads, bytes); !status.ok())
    options_.log("warning",
                 "memory for copies of a GPU was not ready in time, each copy makes its memory: " +
                     status.text());
}

std::size_t CudaCopyEngine::staged_pieces(std::size_t pieces, std::uint64_t piece_bytes) const {
  return std::min<std::size_t>(pieces,
                               std::max<std::size_t>(1, options_.staging_bytes / piece_bytes));
}

Status CudaCopyEngine::noted(Status status) const {
  // A CUDA error may mean a lost context. A retry could hang, or read memory of another page.
  if (status.code() != Code::kUnavailable || ended_.exchange(true))  // mutation: device-error-ends
    return status;
  options_.log(
      "error",
      "copies from and to the GPU have ended in this engine, which goes on without the cache: " +
          status.text());
  return status;
}

Status CudaCopyEngine::run_kernels(CopyStream& stream, Move move, CopyStream::Behind behind,
                                   const NamedPieces& pieces, DevicePtr packed) const {
  const std::size_t at_once = std::max<std::size_t>(
      1, (move == Move::kDigest ? kJoinedBytes : kLaunchBytes) / pieces.piece_bytes);
  const std::uint64_t units = protocol::units_per_piece(pieces.piece_bytes);
  // Between two launches the model's kernels get the multiprocessors.
  for (std::size_t done = 0; done < pieces.count; done += at_once) {
    const std::size_t first = pieces.first + done;
    const MoveJob job{
        reinterpret_cast<const std::uint64_t*>(stream.pieces.device()) + first,
        reinterpret_cast<unsigned char*>(packed == 0 ? 0 : packed + done * pieces.piece_bytes),
        reinterpret_cast<std::uint64_t*>(stream.digests.device()) + first * units,
        pieces.piece_bytes, std::min(at_once, pieces.count - done)};
    if (Status status = stream.launch(*lanes_, pieces.direction, behind,
                                      [&](unsigned blocks, Handle lane) {
                                        return kernels_->launch(move, job, blocks, lane);
                                      });
        !status.ok())
      return status;
  }
  return {};
}

// Queues all pieces by one way. A kernel needs one address for the whole slot.
Status CudaCopyEngine::move(CopyStream& stream, Direction direction, bool kernel,
                            const PieceList& list, const DeviceRange& device) const {
  const bool gather = direction == Direction::kStore;
  if (kernel) {
    if (Status status = make_tables(stream, list.pieces.size(), list.piece_bytes); !status.ok())
      return status;
    return run_kernels(stream, gather ? Move::kGather : Move::kScatter, CopyStream::Behind::kCopies,
                       name_pieces(stream, direction, list), device.in_one_piece());
  }
  CopyList copies;
  copies.add_pieces(gather, list, device);
  return stream.copy(direction, copies);
}

// Moves the pieces. If the device's copy engines move them, kernels digest the pages: after the
// copies of a load, and beside the copies of a store, since both only read the pages.
Status CudaCopyEngine::move_and_digest(CopyStream& stream, Direction direction, bool kernel,
                                       const PieceList& list, const DeviceRange& device) const {
  if (kernel && device.in_one_piece() != 0) return move(stream, direction, true, list, device);
  if (Status status = make_tables(stream, list.pieces.size(), list.piece_bytes); !status.ok())
    return status;
  const NamedPieces pieces = name_pieces(stream, direction, list);
  if (direction == Direction::kStore) {
    if (Status status = run_kernels(stream, Move::kDigest, CopyStream::Behind::kFence, pieces, 0);
        !status.ok())
      return status;
    return move(stream, direction, false, list, device);
  }
  if (Status status = move(stream, direction, false, list, device); !status.ok()) return status;
  return run_kernels(stream, Move::kDigest, CopyStream::Behind::kCopies, pieces, 0);
}

// A moving kernel digests the values in its own registers. Beside the copy engines a kernel digests
// the pages, which the caller leaves unchanged. If a byte changed on the way, the slot and its
// table differ, and the next load reports the difference. Without kernels the host digests the
// slot, which only this call writes.
Status CudaCopyEngine::store_pinned(CopyStream& stream, bool kernel, const PieceList& from,
                                    std::span<std::byte> slot, const DeviceRange& device,
                                    std::span<std::uint64_t> table) const {
  const bool on_device = kernels_ != nullptr;
  if (Status status = on_device ? move_and_digest(stream, Direction::kStore, kernel, from, device)
                                : move(stream, Direction::kStore, false, from, device);
      !status.ok())
    return status;
  if (Status status = stream.finish(); !status.ok()) return status;
  // After finish() only: the kernels write the digests into pinned memory of the stream.
  if (on_device) {
    std::memcpy(table.data(), stream.digests.data<std::uint64_t>(), table.size_bytes());
    return {};
  }
  const std::uint64_t units = protocol::units_per_piece(from.piece_bytes);
  for (std::size_t i = 0; i < from.pieces.size(); ++i)
    protocol::piece_digests(slot.data() + i * from.piece_bytes, from.piece_bytes,
                            table.data() + i * units);
  return {};
}

Status CudaCopyEngine::store_staged(CopyStream& stream, const PieceList& from,
                                    std::span<std::byte> slot,
                                    std::span<std::uint64_t> table) const {
  const bool kernel = by_kernel(Direction::kStore, from.piece_bytes);
  const std::uint64_t units = protocol::units_per_piece(from.piece_bytes);
  // A bounded part at a time: pinned memory is dear, and each copying thread has staging memory of
  // its own.
  const std::size_t at_once = staged_pieces(from.pieces.size(), from.piece_bytes);
  if (Status status = stream.staging.ensure(at_once * from.piece_bytes); !status.ok())
    return status;
  auto* const staging = stream.staging.data<std::byte>();
  for (std::size_t first = 0; first < from.pieces.size(); first += at_once) {
    const PieceList part = part_of(from, first, std::min(at_once, from.pieces.size() - first));
    if (Status status = move(stream, Direction::kStore, kernel, part,
                             stream.staging.range(part.pieces.size() * part.piece_bytes));
        !status.ok())
      return status;
    if (Status status = stream.finish(); !status.ok()) return status;
    for (std::size_t i = 0; i < part.pieces.size(); ++i)
      host_loop().copy_piece(slot.data() + (first + i) * from.piece_bytes,
                             staging + i * from.piece_bytes, from.piece_bytes,
                             table.data() + (first + i) * units, staging + i * from.piece_bytes);
  }
  host_loop().publish();
  return {};
}

// Another process may overwrite a slot during a load. The digests are therefore of the bytes on the
// device, by the kernel that wrote these bytes or by a kernel after the copy engines.
Status CudaCopyEngine::load_pinned(CopyStream& stream, bool kernel, const DeviceRange& device,
                                   const PieceList& to, std::span<std::uint64_t> table) const {
  if (Status status = move_and_digest(stream, Direction::kLoad, kernel, to, device); !status.ok())
    return status;
  if (Status status = stream.finish(); !status.ok()) return status;  // mutation: digests-finished
  std::memcpy(table.data(), stream.digests.data<std::uint64_t>(), table.size_bytes());
  return {};
}

// Only this call uses the staging memory, so the digests on the way in are of the bytes for the
// device.
Status CudaCopyEngine::load_staged(CopyStream& stream, std::span<const std::byte> slot,
                                   const PieceList& to, std::span<std::uint64_t> table) const {
  // Also with a kernel: the host has hashed the staging memory, which only this call writes.
  const bool kernel = by_kernel(Direction::kLoad, to.piece_bytes);
  const std::uint64_t units = protocol::units_per_piece(to.piece_bytes);
  const std::size_t at_once = staged_pieces(to.pieces.size(), to.piece_bytes);
  if (Status status = stream.staging.ensure(at_once * to.piece_bytes); !status.ok()) return status;
  auto* const staging = stream.staging.data<std::byte>();
  for (std::size_t first = 0; first < to.pieces.size(); first += at_once) {
    const PieceList part = part_of(to, first, std::min(at_once, to.pieces.size() - first));
    for (std::size_t i = 0; i < part.pieces.size(); ++i)
      if (part.pieces[i] != nullptr)
        host_loop().copy_piece(staging + i * to.piece_bytes,
                               slot.data() + (first + i) * to.piece_bytes, to.piece_bytes,
                               table.data() + (first + i) * units,
                               slot.data() + (first + i + 1) * to.piece_bytes);
    host_loop().publish();
    if (Status status = move(stream, Direction::kLoad, kernel, part,
                             stream.staging.range(part.pieces.size() * part.piece_bytes));
        !status.ok())
      return status;
    if (Status status = stream.finish(); !status.ok()) return status;
  }
  return {};
}

Result<std::uint64_t> CudaCopyEngine::store(const PieceList& from,
                                            std::span<std::byte> slot) const {
  if (ended_)
    return Status(Code::kUnavailable, "copies from and to the GPU have ended in this engine");
  // Allocated before the copies: std::bad_alloc later would have to wait for the device first.
  std::vector<std::uint64_t> table(from.pieces.size() *
                                   protocol::units_per_piece(from.piece_bytes));
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return noted(scope.status());
  Result<CopyStreams::Lease> stream = streams_->take(from.after);
  if (!stream.ok()) return noted(stream.status());
  const std::uint64_t payload_bytes = from.pieces.size() * from.piece_bytes;
  const DeviceRange device = pinned(slot.first(payload_bytes));
  if (Status status = device.empty()
                          ? store_staged(**stream, from, slot, table)
                          : store_pinned(**stream, by_kernel(Direction::kStore, from.piece_bytes),
                                         from, slot, device, table);
      !status.ok())
    return noted(status);
  host_loop().copy_words(slot.data() + protocol::digest_table_offset(payload_bytes), table.data(),
                         table.size());
  host_loop().publish();
  return protocol::root_digest(table.data(), table.size());
}

Status CudaCopyEngine::load(std::span<const std::byte> slot, std::uint64_t root,
                            const PieceList& to) const {
  if (ended_) return {Code::kUnavailable, "copies from and to the GPU have ended in this engine"};
  const std::uint64_t payload_bytes = to.pieces.size() * to.piece_bytes;
  const std::uint64_t units = protocol::units_per_piece(to.piece_bytes);
  std::vector<std::uint64_t> table(to.pieces.size() * units);
  if (slot.size() <
      protocol::digest_table_offset(payload_bytes) + table.size() * sizeof(std::uint64_t))
    return {Code::kInvalidArgument, "slot is smaller than the pieces and their digest table"};
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return noted(scope.status());
  Result<CopyStreams::Lease> stream = streams_->take(to.after);
  if (!stream.ok()) return noted(stream.status());
  // Without kernels the device cannot digest its pages. The load goes through staging memory and
  // the host digests there.
  const DeviceRange device =
      kernels_ != nullptr ? pinned(slot.first(payload_bytes)) : DeviceRange();
  if (Status status = device.empty()
                          ? load_staged(**stream, slot, to, table)
                          : load_pinned(**stream, by_kernel(Direction::kLoad, to.piece_bytes),
                                        device, to, table);
      !status.ok())
    return noted(status);
  const std::byte* const stored = slot.data() + protocol::digest_table_offset(payload_bytes);
  take_left_out(to.pieces, units, stored, table.data());
  // The root proves the bytes. The comparison finds a damaged table, from which loads of parts
  // take their digests.
  if (protocol::root_digest(table.data(), table.size()) == root &&  // mutation: device-table
      racy_equal(table.data(), stored, table.size() * sizeof(std::uint64_t)))
    return {};
  return {Code::kDataLoss, "the bytes or their digest table do not match the root"};
}

Result<std::shared_ptr<const Fence>> CudaCopyEngine::fence(void* stream) const {
  if (ended_)
    return Status(Code::kUnavailable, "copies from and to the GPU have ended in this engine");
  Result<std::shared_ptr<const Fence>> fence = fences_->record(stream);
  if (!fence.ok()) return noted(fence.status());
  return fence;
}

std::unique_ptr<ReadyMemory> CudaCopyEngine::make_ready(std::span<std::byte> memory,
                                                        int file) const {
  return std::make_unique<Ready>(arenas_, context_, memory, options_.log, options_.registration,
                                 file);
}

}  // namespace larder::copy::cuda

namespace larder::copy {

Result<std::uint64_t> device_of(const void* page) {
  const Result<cuda::ContextPtr> context = cuda::DeviceContext::of(page);
  if (context.ok()) return reinterpret_cast<std::uint64_t>((*context)->handle());
  // No CUDA in this process, or memory of the host: both mean the host's engine.
  if (context.status().code() == Code::kNotFound) return std::uint64_t{0};
  return context.status();
}

Result<std::unique_ptr<CopyEngine>> device_copy_engine(const void* page, Log log) {
  cuda::CudaOptions options;
  options.log = std::move(log);
  Result<std::unique_ptr<cuda::CudaCopyEngine>> made =
      cuda::CudaCopyEngine::make(page, std::move(options));
  if (!made.ok()) return made.status();
  return std::unique_ptr<CopyEngine>(std::move(made).value());
}

}  // namespace larder::copy
