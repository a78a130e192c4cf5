// What the driver's functions are made with, and where they are found: by name, as cuGetProcAddress_v2 gives them out. Thread-safe.
#pragma once

#include <map>
#include <string>

#include "cuda/driver_abi.h"
#include "tests/cuda/fake_driver/captures.h"

namespace larder::fake_cuda {

inline constexpr copy::cuda::ResultCode kInvalidHandle = 400;

// The answer of every function first: what was ordered, or what an earlier error left. With a context, this thread must have it.
copy::cuda::ResultCode begin(const char* function, bool needs_context = true);

#define LARDER_BEGIN(...) \
  if (const copy::cuda::ResultCode answer = begin(__VA_ARGS__); answer != kSuccess) return answer

// The same for what CUDA calls unsafe while somebody captures a graph.
#define LARDER_BEGIN_UNSAFE(...) \
  LARDER_BEGIN(__VA_ARGS__);     \
  if (const copy::cuda::ResultCode answer = captures().unordered(); answer != kSuccess) return answer

// For what gives something back, which a lost context lets pass: all of it went with the context.
copy::cuda::ResultCode begin_giving_back();
#define LARDER_BEGIN_GIVING_BACK() \
  if (const copy::cuda::ResultCode answer = begin_giving_back(); answer != kSuccess) return answer

// What this process's driver is like, by its environment: see entries.cc.
int setting(const char* name, int otherwise);

using Entries = std::map<std::string, void*>;

template <typename Function>
void* any(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Those by which bytes move, of memory, and those by which processes share memory.
const Entries& copy_entries();
const Entries& memory_entries();
const Entries& sharing_entries();

}  // namespace larder::fake_cuda
