// The calls of larder.h about files, which need no client.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "shim/capi/calls.h"
#include "shim/client/file_hash.h"

namespace {

using namespace larder;

// Truncates to the caller's buffer, always with a terminating zero.
void tell(const std::string& text, char* why, size_t why_bytes) {
  if (why == nullptr || why_bytes == 0) return;
  const std::size_t length = std::min(text.size(), why_bytes - 1);
  std::memcpy(why, text.data(), length);
  why[length] = '\0';
}

larder_file_hash to_c(const client::FileDigest& file) {
  larder_file_hash value{};
  // Field by field: the struct of the ABI has a fixed layout, the one of C++ has not.
  std::copy(file.digest.begin(), file.digest.end(), value.digest);
  value.device = file.stamp.device;
  value.inode = file.stamp.inode;
  value.size_bytes = file.stamp.size_bytes;
  value.mtime_ns = file.stamp.mtime_ns;
  value.ctime_ns = file.stamp.ctime_ns;
  value.uncached_bytes = file.uncached_bytes;
  value.local = file.local ? 1 : 0;
  return value;
}

}  // namespace

extern "C" {

larder_status larder_hash_file(const char* path, const int32_t* stop, larder_file_hash* file,
                               char* why, size_t why_bytes) {
  // First, so the buffer never keeps the words of an earlier call.
  tell("", why, why_bytes);
  larder_file_hash value{};
  if (path == nullptr || !capi::read_struct(file, value)) return LARDER_INVALID_ARGUMENT;
  try {
    const Result<client::FileDigest> found =
        client::hash_file(path, {value.uncached_limit, value.limit_local != 0}, stop);
    if (found.ok()) {
      capi::write_struct(to_c(*found), file);
      return LARDER_OK;
    }
    tell(found.status().text(), why, why_bytes);
    return capi::to_c(found.status().code());
  } catch (const std::bad_alloc&) {
    // The read buffer and the page counts of a large file are allocated here. The caller may go on
    // without the hash.
    return LARDER_RESOURCE_EXHAUSTED;
  } catch (...) {
    return LARDER_INTERNAL;
  }
}

}  // extern "C"
