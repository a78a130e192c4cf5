// Driver: NVIDIA's driver API as loaded into this process, with errors as Status.
//
// Larder never loads the library into an engine. An engine with KV pages on a GPU has loaded the
// library already, and other engines do not need it. So liblarder.so links no CUDA library, and an
// engine on CPUs has no cost on a machine with a GPU.
//
// Thread-safe; immutable, static lifetime.
#pragma once

#include <string>
#include <string_view>

#include "cuda/driver_abi.h"
#include "shim/base/status.h"

namespace larder::copy::cuda {

class Driver {
 public:
  // kUnavailable: this process has not loaded libcuda.so.1. kUnsupported: the library is older than
  // CUDA 12.0 or lacks a function; the text names the function. A found library is kept; after a
  // failure the next call looks again.
  static Result<const Driver*> find();
  // As find(), and loads the library if needed: for a larderd with `transfer: sidecar`.
  // kUnavailable: the library does not exist.
  static Result<const Driver*> load();

  const DriverTable* operator->() const { return &table_; }
  bool has_batch() const { return table_.memcpy_batch != nullptr; }
  // Whether another process can open the memory of this one.
  bool shares() const { return shares_; }

  // The file of the loaded library. Empty: the linker knows no file.
  std::string file() const;
  // A result in words: "cuMemcpyAsync: CUDA_ERROR_ILLEGAL_ADDRESS". kResourceExhausted: memory ran
  // out. kFailedPrecondition: a refusal during the capture of a graph. Otherwise kUnavailable.
  Status status(ResultCode result, std::string_view function) const;

 private:
  static Result<const Driver*> find(int mode, const char* missing);
  Status fill(GetProcAddress get);
  void fill_sharing(GetProcAddress get);
  DriverTable table_{};
  const void* in_library_ = nullptr;  // an address
  bool shares_ = false;
};

// Makes a context current for a scope and restores the previous state at the end, since threads of
// the engine make these calls too. All calls run in the relaxed capture mode: they stay out of a
// CUDA graph that another thread captures, and do not invalidate the capture as an allocation
// would.
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
