#include "sidecar/tiers/remote/chunks/backend_log.h"

#include "sidecar/base/log_throttle.h"

namespace larder::remote {

void say(const RemoteOptions& options, std::string_view kind, const std::string& text) {
  const bool alone = options.mode == Mode::kStandalone;
  const Endpoint& one =
      alone ? Endpoint{options.host, options.port, options.unix_path} : options.endpoints.front();
  // Bounded by log_from(): an unstable or nonsensical server causes at most one line a second of
  // each kind.
  base::log_from("backend, " + std::string(kind), base::LogLevel::kInfo,
                 "backend at " + text_of(one) + (alone ? ": " : " and others: ") + text);
}

}  // namespace larder::remote
