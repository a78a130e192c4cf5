// LoopParts: the files, descriptors and tiers that start() makes. The end of the loop unlinks the
// socket, and the files unless they are kept for the next start. Owned by the thread of the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shim/base/fd.h"
#include "shim/protocol/limits.h"
#include "sidecar/config/config.h"
#include "sidecar/memory/arena_file.h"
#include "sidecar/memory/index_file.h"
#include "sidecar/memory/instance_files.h"
#include "sidecar/memory/namespace_journal.h"
#include "sidecar/memory/previous_instance.h"
#include "sidecar/tiering/lower_tiers.h"
#include "sidecar/tiering/peer_holds.h"
#include "sidecar/tiering/residency_filter.h"

namespace larder::loop {

struct LoopParts {
  config::Config config;
  memory::InstanceLock owner;
  memory::PreviousInstance earlier;
  memory::ArenaFile arena;
  memory::IndexFile index;  // under fresh_index_path() until publish_index()
  memory::NamespaceJournal names;
  store::IndexShape shape{};
  std::vector<tiering::OpenTier> tiers;  // lower tiers, nearest first
  std::shared_ptr<tiering::ResidencyFilter>
      residency_filter;                           // for engines; null without a lower tier
  std::unique_ptr<peer::PeerServer> peer_server;  // null: no peer is served
  Fd listener, epoll, timer, wake;
  std::uint64_t grant_age_ms = protocol::kGrantAgeMs;
};

}  // namespace larder::loop
