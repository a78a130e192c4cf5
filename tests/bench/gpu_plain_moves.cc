#include "tests/bench/gpu_plain_moves.h"

#include "shim/protocol/checksum.h"

namespace larder::bench {
namespace {

using namespace copy;

// As PTX, which the driver compiles for its processor: a text that ends with a 0.
#if defined(BARE_KERNELS)
__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    "larder_bare_kernels: .incbin \"" BARE_KERNELS
    "\"\n"
    "larder_bare_kernels_end: .byte 0\n"
    ".popsection\n");
extern "C" const std::byte larder_bare_kernels[], larder_bare_kernels_end[];

Result<std::unique_ptr<cuda::PieceKernels>> bare_kernels(cuda::ContextPtr context) {
  const std::span<const std::byte> image(larder_bare_kernels, larder_bare_kernels_end);
  return cuda::PieceKernels::load(std::move(context), {&image, 1});
}
#else
Result<std::unique_ptr<cuda::PieceKernels>> bare_kernels(const cuda::ContextPtr&) {
  return Status(Code::kUnsupported, "built without NVIDIA's compiler (make deps-cuda)");
}
#endif

// Each mover takes a stream of the product's pool, so that all wait in the same way.
class PlainMoves : public GpuMoves {
 public:
  PlainMoves(GpuField& field, cuda::ContextPtr context)
      : GpuMoves(field),
        context_(std::move(context)),
        driver_(context_->driver()),
        streams_(context_, batches_) {}
  ~PlainMoves() override {
    for (const cuda::Handle event : {begin_, end_})
      if (event != nullptr) driver_->event_destroy(event);
    if (registered_) driver_->mem_host_unregister(field_.arena().data());
  }

  Status prepare() {
    const cuda::ContextScope scope(driver_, context_->handle());
    if (!scope.status().ok()) return scope.status();
    std::byte* const arena = field_.arena().data();
    const cuda::ResultCode code = driver_->mem_host_register(
        arena, field_.arena().size(), cuda::kHostPortable | cuda::kHostDeviceMap);
    registered_ = code == cuda::kSuccess;
    if (!registered_) return driver_.status(code, "cuMemHostRegister");
    if (Status status = driver_.status(driver_->mem_host_get_device_pointer(&arena_, arena, 0),
                                       "cuMemHostGetDevicePointer");
        !status.ok())
      return status;
    for (std::size_t i = 0; i < field_.chunks(); ++i)
      if (Status status = move(cuda::Direction::kStore, i); !status.ok()) return status;
    return {};
  }

  Status move(cuda::Direction direction, std::size_t chunk) override {
    const cuda::ContextScope scope(driver_, context_->handle());
    if (!scope.status().ok()) return scope.status();
    Result<cuda::CopyStreams::Lease> stream = streams_.take();
    if (!stream.ok()) return stream.status();
    if (Status status = queue(**stream, direction, chunk); !status.ok()) return status;
    return (*stream)->finish();
  }

  // The method of nvbandwidth (MemcpyOperation::doMemcpy): between two events of the stream.
  // nvbandwidth blocks the stream meanwhile, so that all copies of a sample are queued before the
  // first begins. A single copy does not need this.
  Result<double> by_events(cuda::Direction direction) override {
    const cuda::ContextScope scope(driver_, context_->handle());
    if (!scope.status().ok()) return scope.status();
    if (Status status = make_events(); !status.ok()) return status;
    Result<cuda::CopyStreams::Lease> stream = streams_.take();
    if (!stream.ok()) return stream.status();
    Status status =
        driver_.status(driver_->event_record(begin_, (*stream)->queue()), "cuEventRecord");
    for (std::size_t i = 0; i < field_.chunks() && status.ok(); ++i)
      status = queue(**stream, direction, i);
    if (status.ok())
      status = driver_.status(driver_->event_record(end_, (*stream)->queue()), "cuEventRecord");
    if (status.ok()) status = (*stream)->finish();
    const auto elapsed =
        field_.device().function<int(float*, cuda::Handle, cuda::Handle)>("cuEventElapsedTime");
    float milliseconds = 0;
    if (status.ok())
      status = driver_.status(elapsed(&milliseconds, begin_, end_), "cuEventElapsedTime");
    if (!status.ok()) return status;
    return milliseconds / 1e3;
  }

 protected:
  virtual Status queue(cuda::CopyStream& stream, cuda::Direction direction, std::size_t chunk) = 0;
  // Of a slot, by the device's address.
  cuda::DevicePtr on_device(std::span<const std::byte> slot) const {
    return arena_ + (slot.data() - field_.arena().data());
  }

  const cuda::ContextPtr context_;
  const cuda::Driver& driver_;

 private:
  Status make_events() {
    for (cuda::Handle* const event : {&begin_, &end_})
      if (*event == nullptr)
        if (Status status = driver_.status(driver_->event_create(event, 0), "cuEventCreate");
            !status.ok())
          return status;
    return {};
  }

  cuda::BatchUse batches_{[](std::string_view, std::string_view) {}};
  cuda::CopyStreams streams_;
  cuda::Handle begin_ = nullptr, end_ = nullptr;  // with times
  cuda::DevicePtr arena_ = 0;
  bool registered_ = false;
};

class BatchMoves final : public PlainMoves {
 public:
  using PlainMoves::PlainMoves;

 private:
  Status queue(cuda::CopyStream& stream, cuda::Direction direction, std::size_t chunk) override {
    cuda::CopyList copies;
    copies.add_pieces(direction == cuda::Direction::kStore, field_.chunk(chunk),
                      cuda::DeviceRange(on_device(field_.slot(chunk)), field_.chunk_bytes()));
    return stream.copy(direction, copies);
  }
};

class CallMoves final : public PlainMoves {
 public:
  CallMoves(GpuField& field, cuda::ContextPtr context, std::uint64_t each)
      : PlainMoves(field, std::move(context)), each_(each) {}

 private:
  Status queue(cuda::CopyStream& stream, cuda::Direction direction, std::size_t chunk) override {
    const auto page =
        reinterpret_cast<cuda::DevicePtr>(field_.pages()) + chunk * field_.chunk_bytes();
    const auto host = reinterpret_cast<cuda::DevicePtr>(field_.slot(chunk).data());
    const bool load = direction == cuda::Direction::kLoad;
    for (std::uint64_t at = 0; at < field_.chunk_bytes(); at += each_) {
      const cuda::DevicePtr to = (load ? page : host) + at, from = (load ? host : page) + at;
      if (Status status = driver_.status(driver_->memcpy_async(to, from, each_, stream.queue()),
                                         "cuMemcpyAsync");
          !status.ok())
        return status;
    }
    return {};
  }

  const std::uint64_t each_;
};

class BareKernelMoves final : public PlainMoves {
 public:
  BareKernelMoves(GpuField& field, cuda::ContextPtr context,
                  std::unique_ptr<cuda::PieceKernels> kernels,
                  std::unique_ptr<cuda::KernelLanes> lanes)
      : PlainMoves(field, std::move(context)),
        kernels_(std::move(kernels)),
        lanes_(std::move(lanes)) {}
  // These run on the lanes' streams.
  Result<double> by_events(cuda::Direction direction) override {
    return GpuMoves::by_events(direction);
  }

 private:
  // The table of digests is there for a driver that runs the product's kernels by these names, such
  // as the driver of tests/cuda.
  Status queue(cuda::CopyStream& stream, cuda::Direction direction, std::size_t chunk) override {
    const PieceList list = field_.chunk(chunk);
    const std::size_t units = list.pieces.size() * protocol::units_per_piece(list.piece_bytes);
    if (Status status = stream.pieces.ensure(list.pieces.size() * sizeof(cuda::DevicePtr));
        !status.ok())
      return status;
    if (Status status = stream.digests.ensure(units * sizeof(std::uint64_t)); !status.ok())
      return status;
    auto* const addresses = stream.pieces.data<cuda::DevicePtr>();
    for (std::size_t i = 0; i < list.pieces.size(); ++i)
      addresses[i] = reinterpret_cast<cuda::DevicePtr>(list.pieces[i]);
    const MoveJob job{reinterpret_cast<const std::uint64_t*>(stream.pieces.device()),
                      reinterpret_cast<unsigned char*>(on_device(field_.slot(chunk))),
                      reinterpret_cast<std::uint64_t*>(stream.digests.device()), list.piece_bytes,
                      list.pieces.size()};
    const Move move = direction == cuda::Direction::kStore ? Move::kGather : Move::kScatter;
    return stream.launch(*lanes_, direction, cuda::CopyStream::Behind::kCopies,
                         [&](unsigned blocks, cuda::Handle lane) {
                           return kernels_->launch(move, job, blocks, lane);
                         });
  }

  const std::unique_ptr<cuda::PieceKernels> kernels_;
  const std::unique_ptr<cuda::KernelLanes> lanes_;
};

Result<std::unique_ptr<GpuMoves>> prepared(std::unique_ptr<PlainMoves> moves) {
  if (Status status = moves->prepare(); !status.ok()) return status;
  return std::unique_ptr<GpuMoves>(std::move(moves));
}

}  // namespace

Result<std::unique_ptr<GpuMoves>> driver_moves(GpuField& field, std::uint64_t each) {
  Result<cuda::ContextPtr> context = cuda::DeviceContext::of(field.pages());
  if (!context.ok()) return context.status();
  if (each != 0) return prepared(std::make_unique<CallMoves>(field, *context, each));
  if (!(*context)->driver().has_batch())
    return Status(Code::kUnsupported, "this driver has no batches of copies (CUDA 12.8 has)");
  return prepared(std::make_unique<BatchMoves>(field, *context));
}

Result<std::unique_ptr<GpuMoves>> bare_kernel_moves(GpuField& field, unsigned blocks) {
  Result<cuda::ContextPtr> context = cuda::DeviceContext::of(field.pages());
  if (!context.ok()) return context.status();
  Result<std::unique_ptr<cuda::PieceKernels>> kernels = bare_kernels(*context);
  if (!kernels.ok()) return kernels.status();
  Result<std::unique_ptr<cuda::KernelLanes>> lanes = cuda::KernelLanes::make(*context, blocks);
  if (!lanes.ok()) return lanes.status();
  return prepared(std::make_unique<BareKernelMoves>(field, *context, std::move(kernels).value(),
                                                    std::move(lanes).value()));
}

}  // namespace larder::bench
