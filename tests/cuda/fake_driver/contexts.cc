#include "tests/cuda/fake_driver/contexts.h"

#include <vector>

#include "tests/cuda/fake_driver/device.h"

namespace larder::fake_cuda {
namespace {

int context_objects[kDevices];
thread_local std::vector<copy::cuda::Handle> contexts;

}  // namespace

copy::cuda::Handle context_of(int device) {
  return &context_objects[device];
}

int current_device() {
  for (int device = 0; !contexts.empty() && device < kDevices; ++device)
    if (contexts.back() == &context_objects[device]) return device;
  return -1;
}

int device_of_context(copy::cuda::Handle context) {
  return static_cast<int>(static_cast<int*>(context) - context_objects);
}

void push_context(copy::cuda::Handle context) {
  contexts.push_back(context);
}

copy::cuda::Handle pop_context() {
  if (contexts.empty()) return nullptr;
  const copy::cuda::Handle popped = contexts.back();
  contexts.pop_back();
  return popped;
}

std::size_t contexts_of_thread() {
  return contexts.size();
}

}  // namespace larder::fake_cuda
