// The functions by which bytes move: copies by copy engines, and kernels, which run on the host.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "cuda/move_pieces.cuh"
#include "tests/cuda/fake_driver/device.h"
#include "tests/cuda/fake_driver/entry.h"

namespace larder::fake_cuda {
namespace {

using namespace copy::cuda;

int module_object;
int function_objects[3];

// On a stream's thread: takes its time, and does nothing once an error sticks.
void perform(const char* kind, const char* delayed_as, const std::function<bool()>& work) {
  int delay = 0;
  std::function<void()> behind;
  {
    const std::lock_guard lock(device().mutex);
    delay = device().delays[delayed_as];
    std::swap(behind, device().behind[kind]);
  }
  if (delay != 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay));
  if (device().faults.next(kind) != kSuccess) return;
  if (!work()) device().faults.set_sticky(kIllegalAddress);
  if (behind) behind();
}

ResultCode queue_copy(Stream* of, DevicePtr to, DevicePtr from, std::size_t bytes) {
  if (of == nullptr) return kInvalidHandle;
  std::byte* const out = device().memory.for_copy(to, bytes);
  const std::byte* const in = device().memory.for_copy(from, bytes);
  if (out == nullptr || in == nullptr || bytes == 0) return kInvalidValue;
  of->add([=] {
    perform("copy", "copy", [=] {
      if (device().memory.for_copy(to, bytes) != out || device().memory.for_copy(from, bytes) != in)
        return false;  // gone meanwhile
      std::memcpy(out, in, bytes);
      return true;
    });
  });
  return kSuccess;
}

ResultCode memcpy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Handle stream) {
  LARDER_BEGIN("cuMemcpyAsync");
  {
    const std::lock_guard lock(device().mutex);
    ++device().counted.copies;
  }
  return queue_copy(device().stream(stream), to, from, bytes);
}

// Pages must be read in the stream's order, or before the fence: a batch without that is refused, and one that does not leave the multiprocessors
// to the model.
ResultCode memcpy_batch(DevicePtr* to, DevicePtr* from, std::size_t* bytes, std::size_t count, CopyAttributes* attributes,
                        std::size_t* starts, std::size_t attribute_count, std::size_t* failed, Handle stream) {
  LARDER_BEGIN("cuMemcpyBatchAsync");
  if (stream == nullptr || attribute_count != 1 || starts[0] != 0 || attributes->source_access_order != kAccessOrderStream ||
      attributes->flags != kBesideCompute)
    return kInvalidValue;
  {
    const std::lock_guard lock(device().mutex);
    ++device().counted.batches;
  }
  for (*failed = 0; *failed < count; ++*failed)
    if (const ResultCode code = queue_copy(device().stream(stream), to[*failed], from[*failed], bytes[*failed]); code != kSuccess)
      return code;
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
  if (const ResultCode answer = captures().unordered(); answer != kSuccess) return answer;
  const std::lock_guard lock(device().mutex);
  --device().counted.modules;
  return kSuccess;
}

ResultCode module_get_function(Handle* function, Handle, const char* name) {
  LARDER_BEGIN("cuModuleGetFunction");
  for (const auto& [number, wanted] :
       {std::pair(copy::Move::kGather, "larder_gather"), std::pair(copy::Move::kScatter, "larder_scatter"),
        std::pair(copy::Move::kDigest, "larder_digest")})
    if (std::strcmp(name, wanted) == 0) {
      *function = &function_objects[static_cast<int>(number)];
      return kSuccess;
    }
  return copy::cuda::kNotFound;
}

// With every address checked, and turned into one that the host can use. False: one is nobody's.
bool run_kernel(copy::Move move, copy::MoveJob job, unsigned blocks) {
  const Memory& memory = device().memory;
  const std::uint64_t units = (job.piece_bytes + copy::kUnitBytes - 1) / copy::kUnitBytes * job.piece_count;
  const auto at = [&](const void* address, std::uint64_t bytes) {
    return memory.for_kernel(reinterpret_cast<DevicePtr>(address), bytes);
  };
  const auto* addresses = reinterpret_cast<const DevicePtr*>(at(job.pieces, job.piece_count * sizeof(DevicePtr)));
  std::byte* const digests = at(job.digests, units * sizeof(std::uint64_t));
  std::byte* const packed = move == copy::Move::kDigest ? nullptr : at(job.packed, job.piece_bytes * job.piece_count);
  if (addresses == nullptr || digests == nullptr || (packed == nullptr && move != copy::Move::kDigest)) return false;
  std::vector<std::uint64_t> pieces;
  for (std::uint64_t i = 0; i < job.piece_count; ++i) {
    std::byte* const piece = addresses[i] == 0 ? nullptr : memory.for_kernel(addresses[i], job.piece_bytes);
    if (addresses[i] != 0 && piece == nullptr) return false;
    pieces.push_back(reinterpret_cast<std::uint64_t>(piece));
  }
  job.pieces = pieces.data();
  job.packed = reinterpret_cast<unsigned char*>(packed);
  job.digests = reinterpret_cast<std::uint64_t*>(digests);
  const std::uint64_t warps = std::uint64_t{blocks} * copy::kWarpsPerBlock;
  for (std::uint64_t number = 0; number < warps; ++number) {
    copy::HostWarp warp;
    if (move == copy::Move::kGather) copy::move_pieces<copy::Move::kGather>(warp, job, number, warps);
    if (move == copy::Move::kScatter) copy::move_pieces<copy::Move::kScatter>(warp, job, number, warps);
    if (move == copy::Move::kDigest) copy::move_pieces<copy::Move::kDigest>(warp, job, number, warps);
  }
  return true;
}

// A kernel has its multiprocessors from its begin to its end.
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

ResultCode launch_kernel(Handle function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                         unsigned threads_y, unsigned threads_z, unsigned, Handle stream, void** parameters, void**) {
  LARDER_BEGIN("cuLaunchKernel");
  Stream* const of = device().stream(stream);
  if (of == nullptr) return kInvalidHandle;
  if (blocks_x == 0 || blocks_y != 1 || blocks_z != 1 || threads_x != copy::kLanes * copy::kWarpsPerBlock || threads_y != 1 ||
      threads_z != 1)
    return kInvalidValue;
  const auto move = static_cast<copy::Move>(static_cast<int*>(function) - function_objects);
  const copy::MoveJob job = *static_cast<const copy::MoveJob*>(parameters[0]);
  const char* const delayed_as = move == copy::Move::kDigest ? "digest" : "kernel";
  {
    const std::lock_guard lock(device().mutex);
    ++device().counted.kernels;
  }
  of->add([=] {
    const Running running(blocks_x);
    perform("kernel", delayed_as, [=] { return run_kernel(move, job, blocks_x); });
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
