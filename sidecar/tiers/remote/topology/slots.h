// What servers say of other servers: the slot of a key, a Cluster's map of slots, redirections, whom a Sentinel names. Pure;
// thread-safe. All that comes from a server is taken for hostile: what is malformed is nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/resp.h"

namespace larder::remote {

inline constexpr std::size_t kSlots = 16'384;

// CRC16 of the whole key: none of ours has a hash tag, so that the parts of a chunk spread over all slots.
std::uint16_t slot_of(std::string_view key);

struct SlotRange {
  std::uint16_t first = 0, last = 0;
  Endpoint master;
  std::vector<Endpoint> replicas = {};
};

// A reply to CLUSTER SLOTS. `asked`: the host that was asked, for nodes that do not tell their own.
std::optional<std::vector<SlotRange>> parse_slots(const Reply& reply, const std::string& asked);

// A reply to SENTINEL GET-MASTER-ADDR-BY-NAME: host and port, both as text.
std::optional<Endpoint> parse_named(const Reply& reply);

struct Redirection {
  enum class What : std::uint8_t {
    kNone,   // an error of another kind
    kMoved,  // this slot is that server's
    kAsk,    // this key may be with that server already
    kAgain,  // some keys of the slot are on their way
  };
  What what = What::kNone;
  Endpoint to;  // kMoved, kAsk; port 0: it cannot be read
};

// `error`: an error reply's text; `asked`: the host that it came from.
Redirection parse_redirection(std::string_view error, const std::string& asked);

}  // namespace larder::remote
