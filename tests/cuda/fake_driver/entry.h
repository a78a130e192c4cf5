// The building blocks of the driver's functions, and the tables in which cuGetProcAddress_v2 finds
// the functions by name. Thread-safe.
#pragma once

#include <map>
#include <string>

#include "cuda/driver_abi.h"
#include "tests/cuda/fake_driver/captures.h"

namespace larder::fake_cuda {

inline constexpr copy::cuda::ResultCode kInvalidHandle = 400;

// The start of every function: returns an ordered fault or an earlier sticky error. With
// `needs_context` the thread must have a current context.
copy::cuda::ResultCode begin(const char* function, bool needs_context = true);

#define LARDER_BEGIN(...) \
  if (const copy::cuda::ResultCode answer = begin(__VA_ARGS__); answer != kSuccess) return answer

// The same for calls that are unsafe during a capture of a graph.
#define LARDER_BEGIN_UNSAFE(...)                                                        \
  LARDER_BEGIN(__VA_ARGS__);                                                            \
  if (const copy::cuda::ResultCode answer = captures().unordered(); answer != kSuccess) \
  return answer

// The same for calls that release something. They succeed after the context is lost, because all
// resources went with the context.
copy::cuda::ResultCode begin_giving_back();
#define LARDER_BEGIN_GIVING_BACK() \
  if (const copy::cuda::ResultCode answer = begin_giving_back(); answer != kSuccess) return answer

// A property of this process's driver, from the environment (entries.cc).
int setting(const char* name, int otherwise);

using Entries = std::map<std::string, void*>;

template <typename Function>
void* any(Function* function) {
  return reinterpret_cast<void*>(function);
}

// The functions that move bytes, that allocate memory, and that share memory between processes.
const Entries& copy_entries();
const Entries& memory_entries();
const Entries& sharing_entries();

}  // namespace larder::fake_cuda
