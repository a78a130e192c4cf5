// Driver: NVIDIA's driver API as found in this process, and its errors as Status.
//
// It is never loaded by us into an engine: one with KV pages on a GPU has it in its process already, and any other has no use for it. So
// liblarder.so needs no CUDA library, and an engine on CPUs pays nothing on a machine that has a GPU.
// Thread-safe; immutable, static lifetime.
#pragma once

#include <string_view>

#include "cuda/driver_abi.h"
#include "shim/base/status.h"

namespace larder::copy::cuda {

class Driver {
 public:
  // kUnavailable: this process has not loaded libcuda.so.1. kUnsupported: it is older than CUDA 12.0 or lacks a function: the text says
  // which. What is found once is kept; what is not is looked for again at the next call.
  static Result<const Driver*> find();
  // The same, and loads it where this process has not: for a larderd that is told to copy itself. kUnavailable: there is none.
  static Result<const Driver*> load();

  const DriverTable* operator->() const { return &table_; }
  bool has_batch() const { return table_.memcpy_batch != nullptr; }
  // Memory of one process can be opened by another.
  bool shares() const { return shares_; }

  // A result in words: "cuMemcpyAsync: CUDA_ERROR_ILLEGAL_ADDRESS". kResourceExhausted: memory ran out; kFailedPrecondition: not while a graph is captured;
  // else kUnavailable.
  Status status(ResultCode result, std::string_view function) const;

 private:
  static Result<const Driver*> find(int mode, const char* missing);
  Status fill(GetProcAddress get);
  void fill_sharing(GetProcAddress get);
  DriverTable table_{};
  bool shares_ = false;
};

// Makes a context this thread's for a scope, and gives back what was there: these calls are made on threads of the engine too. What is
// called inside is no part of a CUDA graph that another thread captures meanwhile, and does not spoil it, as allocating memory would.
class ContextScope {
 public:
  ContextScope(const Driver& driver, Handle context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  Status status() const { return driver_.status(result_, "cuCtxPushCurrent"); }

 private:
  const Driver& driver_;
  const ResultCode result_;
  int capture_mode_ = kCaptureRelaxed;
};

}  // namespace larder::copy::cuda
