// Parsers for statements about servers: the slot of a key, the map of a Cluster, redirections, the
// master of a Sentinel. Pure; thread-safe. All input is hostile: a malformed reply counts as
// missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/net/resp.h"
#include "sidecar/tiers/remote/options.h"

namespace larder::remote {

inline constexpr std::size_t kSlots = 16'384;

// CRC16 of the whole key. Keys of larderd have no hash tag, so the parts of a chunk spread over all
// slots.
std::uint16_t slot_of(std::string_view key);

struct SlotRange {
  std::uint16_t first = 0, last = 0;
  Endpoint master;
  std::vector<Endpoint> replicas = {};
};

// A reply to CLUSTER SLOTS. `asked`: the host of the asked node, for nodes that do not know their
// own host.
std::optional<std::vector<SlotRange>> parse_slots(const Reply& reply, const std::string& asked);

// A reply to SENTINEL GET-MASTER-ADDR-BY-NAME: host and port, both as text.
std::optional<Endpoint> parse_named(const Reply& reply);

struct Redirection {
  enum class What : std::uint8_t {
    kNone,   // an error of another kind
    kMoved,  // another server has the slot
    kAsk,    // another server may have the key already
    kAgain,  // keys of the slot are moving
  };
  What what = What::kNone;
  Endpoint to;  // kMoved, kAsk; port 0: unreadable
};

// `error`: the text of an error reply; `asked`: the host that sent the reply.
Redirection parse_redirection(std::string_view error, const std::string& asked);

}  // namespace larder::remote
