// The first words on a connection: what they need, and what a server's answers to them tell.
//
// Of a server's own words only what is known is ever said: a hostile one could send back the password that it was given.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shim/base/status.h"
#include "sidecar/tiers/remote/resp/resp.h"

namespace larder::remote {

// What a server must be; what is something else is refused, and it is said what it is.
enum class Kind : std::uint8_t { kStandalone, kMaster, kNode, kReplica, kSentinel };
constexpr bool of_cluster(Kind kind) {
  return kind == Kind::kNode || kind == Kind::kReplica;
}

// Without the newline at its end. A file that is none, a pipe say, is refused and not waited for.
// `option`: its name, for errors.
Result<std::string> read_password(const std::string& option, const std::string& path);

// Why the server refuses the HELLO that this is the answer to; ok: it does not.
Status refusal_of(const Reply& hello);

// Why a server of this mode and role, as HELLO tells them, is not what it must be; ok: it is.
Status role_mismatch(Kind kind, std::string_view mode, std::string_view role);

// What HELLO tells under a name; empty: nothing.
std::string_view told(const Reply& hello, std::string_view name);

// The same of an INFO. The first line of one is a title, so every name stands behind an end of line.
std::string_view info_value(std::string_view info, std::string_view name);

}  // namespace larder::remote
