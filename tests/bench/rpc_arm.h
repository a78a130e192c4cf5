// The rival of the shared index: the same look-up behind a round trip over a Unix socket. Server
// and caller are processes of their own.
#pragma once

#include <vector>

#include "shim/base/fd.h"
#include "shim/client/lookup.h"
#include "tests/bench/small_client.h"

namespace larder::bench {

// With `spinning` neither side sleeps, at the price of a whole processor.
enum class Waiting { kSleeping, kSpinning };

// Answers look-ups on `socket` until the other end closes.
void serve_lookups(int socket, SmallClient& client, Waiting waiting);

// One round trip. Returns the number of present hashes.
std::uint64_t ask(int socket, const std::vector<protocol::BlockHash>& hashes, Waiting waiting);

}  // namespace larder::bench
