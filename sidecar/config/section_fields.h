// The parsers of the keys in the sections backend and peers, for the table in fields.cc. Pure;
// thread-safe. Errors are half sentences, as in fields.h.
#pragma once

#include <string>
#include <string_view>

#include "shim/base/status.h"
#include "sidecar/config/config.h"

namespace larder::config {

// Sets a text that passes `check`.
Status set(std::string_view text, std::string& target, Status (*check)(std::string_view));
// Accepts an empty text, for a field without a value.
Status set_path(std::string_view text, std::string& target);

Status set_backend_url(std::string_view text, Config& config);
Status set_sentinel_user(std::string_view text, Config& config);
Status set_server_name(std::string_view text, Config& config);
Status set_read_replicas(std::string_view text, Config& config);
Status set_prefix(std::string_view text, Config& config);
Status set_backend_ttl(std::string_view text, Config& config);
Status set_backend_write(std::string_view text, Config& config);
std::string print_backend_write(const Config& config);
Status set_write_rate(std::string_view text, Config& config);
Status set_plugin_region(std::string_view text, Config& config);
Status set_plugin_patience(std::string_view text, Config& config);

Status set_peers_listen(std::string_view text, Config& config);
Status set_peers_members(std::string_view text, Config& config);
Status set_peers_fanout(std::string_view text, Config& config);
Status set_serve_rate(std::string_view text, Config& config);
Status set_peers_plaintext(std::string_view text, Config& config);
Status set_peers_server_name(std::string_view text, Config& config);

}  // namespace larder::config
