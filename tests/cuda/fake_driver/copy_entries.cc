// The functions that move bytes: copies by copy engines, and kernels, which run on the host.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/move_pieces.cuh"
#include "tests/cuda/fake_driver/contexts.h"
#include "tests/cuda/fake_driver/device.h"
#include "tests/cuda/fake_driver/entry.h"

namespace larder::fake_cuda {
namespace {

using namespace copy::cuda;

int module_object;
int function_objects[3];

// On a stream's thread: spends the cost, and skips the work after a sticky error.
void perform(int on, const char* kind, const char* counted_as, std::size_t bytes,
             const std::function<bool()>& work) {
  std::function<void()> behind;
  {
    const std::lock_guard lock(device().mutex);
    std::swap(behind, device().behind[kind]);
  }
  device().spend(counted_as, bytes);
  if (device().faults.next(kind, on) != kSuccess) return;
  if (!work()) device().faults.set_sticky(on, kIllegalAddress);
  if (behind) behind();
}

struct OneCopy {
  DevicePtr to, from;
  std::size_t bytes;
  std::byte* out = nullptr;
  const std::byte* in = nullptr;
};

void add_bytes(const OneCopy& copy, CopiedBytes& bytes) {
  const bool from = device().memory.on_device(copy.from, copy.bytes),
             to = device().memory.on_device(copy.to, copy.bytes);
  if (from != to) bytes[from ? 0 : 1] += copy.bytes;
}

ResultCode look_up(const Stream& of, OneCopy& copy) {
  copy.out = device().memory.for_copy(of.device(), copy.to, copy.bytes);
  copy.in = device().memory.for_copy(of.device(), copy.from, copy.bytes);
  return copy.out == nullptr || copy.in == nullptr || copy.bytes == 0 ? kInvalidValue : kSuccess;
}

void make(int on, const OneCopy& copy, bool reachable) {
  perform(on, "copy", "copy", copy.bytes, [&] {
    const Memory& memory = device().memory;
    if (!reachable || memory.for_copy(on, copy.to, copy.bytes) != copy.out ||
        memory.for_copy(on, copy.from, copy.bytes) != copy.in)
      // The address is out of reach or was freed meanwhile.
      return false;
    std::memcpy(copy.out, copy.in, copy.bytes);
    return true;
  });
}

Stream* stream_here(Handle stream) {
  Stream* const of = device().stream(stream);
  return of != nullptr && of->device() == current_device() ? of : nullptr;
}

// The driver translates a host address itself.
ResultCode memcpy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Handle stream) {
  LARDER_BEGIN("cuMemcpyAsync");
  {
    const std::lock_guard lock(device().mutex);
    ++device().counted.copies;
  }
  Stream* const of = stream_here(stream);
  if (of == nullptr) return kInvalidHandle;
  OneCopy copy{to, from, bytes};
  if (const ResultCode code = look_up(*of, copy); code != kSuccess) return code;
  CopiedBytes counted{};
  add_bytes(copy, counted);
  of->add_copies([copy, on = of->device()] { make(on, copy, true); }, counted);
  return kSuccess;
}

// Two copies of a batch onto one byte have no order.
bool overlap(std::vector<OneCopy> copies) {
  std::ranges::sort(copies, {}, &OneCopy::to);
  for (std::size_t i = 1; i < copies.size(); ++i)
    if (copies[i - 1].to + copies[i - 1].bytes > copies[i].to) return true;
  return false;
}

// CUDA promises no order among a batch's copies. Here every second copy comes first, starting from
// the end.
void make_batch(int on, const std::vector<OneCopy>& copies, bool host_pointers) {
  const auto reachable = [&](const OneCopy& copy) {
    const Memory& memory = device().memory;
    return host_pointers || (!memory.registered_by_host_address(copy.to) &&
                             !memory.registered_by_host_address(copy.from));
  };
  for (const std::size_t first : {std::size_t{1}, std::size_t{0}})
    for (std::size_t i = copies.size(); i-- > 0;)
      if (i % 2 == first) make(on, copies[i], reachable(copies[i]));
}

// Pages must be read in the stream's order, not before the fence. A batch without this attribute is
// refused, and so is a batch without the hint to leave the multiprocessors to the model.
ResultCode memcpy_batch(DevicePtr* to, DevicePtr* from, std::size_t* bytes, std::size_t count,
                        CopyAttributes* attributes, std::size_t* starts,
                        std::size_t attribute_count, std::size_t* failed, Handle stream) {
  LARDER_BEGIN("cuMemcpyBatchAsync");
  if (stream == nullptr || attribute_count != 1 || starts[0] != 0 ||
      attributes->source_access_order != kAccessOrderStream || attributes->flags != kBesideCompute)
    return kInvalidValue;
  Stream* const of = stream_here(stream);
  if (of == nullptr) return kInvalidHandle;
  std::vector<OneCopy> copies;
  for (*failed = 0; *failed < count; ++*failed) {
    copies.push_back({to[*failed], from[*failed], bytes[*failed]});
    if (const ResultCode code = look_up(*of, copies.back()); code != kSuccess) return code;
  }
  if (overlap(copies)) return kInvalidValue;
  bool host_pointers = true;
  {
    const std::lock_guard lock(device().mutex);
    ++device().counted.batches;
    host_pointers = device().host_pointers;
  }
  CopiedBytes counted{};
  for (const OneCopy& copy : copies) add_bytes(copy, counted);
  of->add_copies(
      [copies, host_pointers, on = of->device()] { make_batch(on, copies, host_pointers); },
      counted);
  return kSuccess;
}

ResultCode module_load_data(Handle* module, const void* image) {
  LARDER_BEGIN_UNSAFE("cuModuleLoadData");
  if (image == nullptr) return kInvalidValue;
  *module = &module_object;
  const std::lock_guard lock(device().mutex);
  ++device().counted.modules;
  return kSuccess;
}

ResultCode module_unload(Handle) {
  LARDER_BEGIN_GIVING_BACK();
  if (const ResultCode answer = captures().unordered(); answer != kSuccess) return answer;
  const std::lock_guard lock(device().mutex);
  --device().counted.modules;
  return kSuccess;
}

ResultCode module_get_function(Handle* function, Handle, const char* name) {
  LARDER_BEGIN("cuModuleGetFunction");
  for (const auto& [number, wanted] : {std::pair(copy::Move::kGather, "larder_gather"),
                                       std::pair(copy::Move::kScatter, "larder_scatter"),
                                       std::pair(copy::Move::kDigest, "larder_digest")})
    if (std::strcmp(name, wanted) == 0) {
      *function = &function_objects[static_cast<int>(number)];
      return kSuccess;
    }
  return copy::cuda::kNotFound;
}

// Checks each address and turns it into one for the host. False: an address is invalid.
bool run_kernel(int on, copy::Move move, copy::MoveJob job, unsigned blocks) {
  const Memory& memory = device().memory;
  const std::uint64_t units =
      (job.piece_bytes + copy::kUnitBytes - 1) / copy::kUnitBytes * job.piece_count;
  const auto at = [&](const void* address, std::uint64_t bytes) {
    return memory.for_kernel(on, reinterpret_cast<DevicePtr>(address), bytes);
  };
  const auto* addresses =
      reinterpret_cast<const DevicePtr*>(at(job.pieces, job.piece_count * sizeof(DevicePtr)));
  std::byte* const digests = at(job.digests, units * sizeof(std::uint64_t));
  std::byte* const packed =
      move == copy::Move::kDigest ? nullptr : at(job.packed, job.piece_bytes * job.piece_count);
  if (addresses == nullptr || digests == nullptr ||
      (packed == nullptr && move != copy::Move::kDigest))
    return false;
  std::vector<std::uint64_t> pieces;
  for (std::uint64_t i = 0; i < job.piece_count; ++i) {
    std::byte* const piece =
        addresses[i] == 0 ? nullptr : memory.for_kernel(on, addresses[i], job.piece_bytes);
    if (addresses[i] != 0 && piece == nullptr) return false;
    pieces.push_back(reinterpret_cast<std::uint64_t>(piece));
  }
  job.pieces = pieces.data();
  job.packed = reinterpret_cast<unsigned char*>(packed);
  job.digests = reinterpret_cast<std::uint64_t*>(digests);
  const std::uint64_t warps = std::uint64_t{blocks} * copy::kWarpsPerBlock;
  for (std::uint64_t number = 0; number < warps; ++number) {
    copy::HostWarp warp;
    if (move == copy::Move::kGather)
      copy::move_pieces<copy::Move::kGather>(warp, job, number, warps);
    if (move == copy::Move::kScatter)
      copy::move_pieces<copy::Move::kScatter>(warp, job, number, warps);
    if (move == copy::Move::kDigest)
      copy::move_pieces<copy::Move::kDigest>(warp, job, number, warps);
  }
  return true;
}

// A kernel occupies its multiprocessors from begin to end.
class Running {
 public:
  explicit Running(unsigned blocks) : blocks_(blocks) {
    Device& d = device();
    const std::lock_guard lock(d.mutex);
    d.counted.most_blocks = std::max(d.counted.most_blocks, d.running_blocks += blocks_);
    d.counted.most_kernels = std::max(d.counted.most_kernels, ++d.running_kernels);
  }
  ~Running() {
    Device& d = device();
    const std::lock_guard lock(d.mutex);
    d.running_blocks -= blocks_;
    --d.running_kernels;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const unsigned blocks_;
};

ResultCode launch_kernel(Handle function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                         unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned,
                         Handle stream, void** parameters, void**) {
  LARDER_BEGIN("cuLaunchKernel");
  Stream* const of = stream_here(stream);
  if (of == nullptr) return kInvalidHandle;
  if (blocks_x == 0 || blocks_y != 1 || blocks_z != 1 ||
      threads_x != copy::kLanes * copy::kWarpsPerBlock || threads_y != 1 || threads_z != 1)
    return kInvalidValue;
  const auto move = static_cast<copy::Move>(static_cast<int*>(function) - function_objects);
  const copy::MoveJob job = *static_cast<const copy::MoveJob*>(parameters[0]);
  const char* const counted_as = move == copy::Move::kDigest ? "digest" : "kernel";
  const std::uint64_t bytes = job.piece_bytes * job.piece_count;
  {
    const std::lock_guard lock(device().mutex);
    ++device().counted.kernels;
    std::uint64_t& most = move == copy::Move::kDigest ? device().counted.most_digested_bytes
                                                      : device().counted.most_moved_bytes;
    most = std::max(most, bytes);
  }
  of->add([=, on = of->device()] {
    const Running running(blocks_x);
    perform(on, "kernel", counted_as, bytes, [=] { return run_kernel(on, move, job, blocks_x); });
  });
  return kSuccess;
}

}  // namespace

const Entries& copy_entries() {
  static const Entries all{
      {"cuMemcpyAsync", any(memcpy_async)},
      {"cuMemcpyBatchAsync", any(memcpy_batch)},
      {"cuModuleLoadData", any(module_load_data)},
      {"cuModuleUnload", any(module_unload)},
      {"cuModuleGetFunction", any(module_get_function)},
      {"cuLaunchKernel", any(launch_kernel)},
  };
  return all;
}

}  // namespace larder::fake_cuda

// Found by name only, for benchmarks that launch small work of an engine.
extern "C" int cuMemsetD8Async(larder::copy::cuda::DevicePtr to, unsigned char value,
                               std::size_t bytes, void* stream) {
  namespace fake = larder::fake_cuda;
  fake::Stream* const of = fake::device().stream(stream);
  if (of == nullptr) return fake::kInvalidHandle;
  std::byte* const out = fake::device().memory.for_copy(of->device(), to, bytes);
  if (out == nullptr) return larder::copy::cuda::kInvalidValue;
  of->add([=] { std::memset(out, value, bytes); });
  return larder::copy::cuda::kSuccess;
}
