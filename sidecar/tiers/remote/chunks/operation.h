// Operations of the remote tier: the command, the state until the answer, and the answer. Plain
// values, owned by the thread of the tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/tiers/command.h"
#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/remote/resp/error_reply.h"
#include "sidecar/tiers/remote/topology/write_gate.h"

namespace larder::remote {

using tiers::Command;
using tiers::Outcome;

// An accepted command with its progress.
struct Op {
  Command command;
  std::uint64_t serial = 0;
  bool started = false;    // a command was sent
  bool probed = false;     // put: the earlier record is known
  bool done = false;       // kDone is sent
  bool cancelled = false;  // dropped or evicted meanwhile: fails whatever the server replies
  bool missing = false;    // a part is missing
  WriteGate::Put put;      // put: for the gates of its servers
  std::optional<std::size_t> trial;     // put: the part that goes first as a trial
  std::string failed_key;               // put: the key of the failed command; empty without one
  std::optional<ErrorMeaning> refused;  // put: the error reply of that command
  bool unsent = false;                  // put: no byte was sent, because there was no connection
  std::uint64_t again_ns = 0;           // put: as in the message
  bool by_replica = false;              // get: some parts come from replicas
  bool masters = false;                 // get: replicas lacked parts, ask only masters
  std::size_t waiting = 0;              // replies due
  Status failed;                        // the first failure
  Record record;                        // put: without a writing until its parts are sent
  std::uint64_t partial = 0;            // get: the writing with a missing part
  std::uint64_t moving = 0;             // bytes of the slot that count as in flight
  std::uint64_t ttl_ms = 0;             // put: 0: no limit
  std::uint64_t dropped = 0;            // drop: records
  std::vector<bool> there;              // probe: the result
  bool answered = false;                // probe: a reply for one key at least
  std::vector<tiers::ChunkKey> evicted = {};  // probe: keys that were evicted meanwhile
};
using OpPtr = std::shared_ptr<Op>;  // shared by the lists and the callbacks of replies

}  // namespace larder::remote
