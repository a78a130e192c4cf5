// The handshake of a connection: reads the password file, and checks the replies of the server.
//
// Of the words of a server only known words are shown: a hostile server could send back the
// password of the client. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shim/base/status.h"
#include "sidecar/tiers/remote/resp/wire.h"

namespace larder::remote {

// The required kind of a server. A server of another kind is refused, and the error names the
// actual kind.
enum class Kind : std::uint8_t { kStandalone, kMaster, kNode, kReplica, kSentinel };
constexpr bool of_cluster(Kind kind) {
  return kind == Kind::kNode || kind == Kind::kReplica;
}

// The password of a file, without the newline at the end. Refuses anything but a regular file
// without waiting, for example a pipe. `option`: the name of the option, for errors.
Result<std::string> read_password(const std::string& option, const std::string& path);

// The reason why the server refused HELLO; ok: accepted.
Status refusal_of(const Reply& hello);

// The reason why the mode and role of a HELLO reply do not match `kind`; ok: match.
Status role_mismatch(Kind kind, std::string_view mode, std::string_view role);

// The value of a name in a HELLO reply; empty without one.
std::string_view map_field(const Reply& hello, std::string_view name);

// The value of a name in an INFO reply. The first line is a title, so every name follows an end of
// line.
std::string_view info_value(std::string_view info, std::string_view name);

}  // namespace larder::remote
