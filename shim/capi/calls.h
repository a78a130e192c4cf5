// The common part of all calls of the C ABI: checks the client, reads structs of older and newer
// callers, and lets no exception out. Header-only; thread-safe as client::Client is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "shim/capi/larder.h"
#include "shim/client/client.h"

struct larder_client {
  larder::client::Client impl;
};

namespace larder::capi {

inline larder_status to_c(Code code) {
  return static_cast<larder_status>(code);
}

// Runs `call` with a usable client; an exception becomes a status. A forked child has no threads of
// the client, so every call there is refused.
template <typename Call>
larder_status guarded(const larder_client* client, Call call) noexcept {
  if (client == nullptr) return LARDER_INVALID_ARGUMENT;
  if (client->impl.in_child()) return LARDER_FAILED_PRECONDITION;
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return LARDER_RESOURCE_EXHAUSTED;
  } catch (...) {
    return LARDER_INTERNAL;
  }
}

// The code of `status`. Logs the text for a wrong call, since the C ABI returns codes only. An
// absent or full larderd is a normal state and is not logged.
inline larder_status answered(larder_client* client, std::string_view function,
                              const Status& status) {
  const Code code = status.code();
  if (code == Code::kInvalidArgument || code == Code::kOutOfRange ||
      code == Code::kFailedPrecondition)
    client->impl.log("error", std::string(function) + ": " + status.text());
  return to_c(code);
}

// Reads a versioned struct. An older caller has a shorter struct, and the missing fields become 0;
// of a newer caller only the known fields are read. False: NULL or without a size.
template <typename T>
bool read_struct(const T* from, T& to) {
  if (from == nullptr || from->struct_bytes < sizeof(from->struct_bytes)) return false;
  std::memset(&to, 0, sizeof(to));
  std::memcpy(&to, from, std::min<std::size_t>(from->struct_bytes, sizeof(to)));
  return true;
}
// Writes only the fields that the caller's struct has room for.
template <typename T>
void write_struct(T value, T* to) {
  value.struct_bytes = to->struct_bytes;
  std::memcpy(to, &value, std::min<std::size_t>(to->struct_bytes, sizeof(value)));
}

// False: the hashes break the rules of larder.h.
inline bool read_hashes(const larder_hashes* from, client::Hashes& to) {
  if (from == nullptr || (from->count != 0 && (from->bytes == nullptr ||
                                               from->stride_bytes < protocol::kBlockHashBytes)))
    return false;
  to = {from->bytes, from->stride_bytes, from->count, from->ns};
  return true;
}

// The answer of a look-up; 0 after a wrong call, which is a miss.
inline size_t looked_up(larder_client* client, const larder_hashes* hashes,
                        std::size_t (client::Lookups::*look)(const client::Hashes&) const) {
  size_t found = 0;
  guarded(client, [&] {
    client::Hashes given;
    if (!read_hashes(hashes, given)) return LARDER_INVALID_ARGUMENT;
    found = (client->impl.lookups().*look)(given);
    return LARDER_OK;
  });
  return found;
}

}  // namespace larder::capi
