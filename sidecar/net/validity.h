// How long the certificates of a stream are valid, so that a new stream can take over in time.
#pragma once

#include <cstdint>

#include "sidecar/net/stream.h"

namespace larder::net {

// How many more seconds the certificates of both sides of an established stream are valid;
// INT64_MAX without strict TLS.
std::int64_t valid_s(const Stream& stream);

}  // namespace larder::net
