#include "sidecar/backend_check/server_info.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "sidecar/tiers/remote/resp/handshake.h"

namespace larder::backend_check {
namespace {

constexpr std::array<std::string_view, 8> kPolicies{
    "noeviction",      "allkeys-lru",  "allkeys-lfu",  "allkeys-random",
    "volatile-random", "volatile-lru", "volatile-lfu", "volatile-ttl"};
constexpr std::array<std::string_view, 3> kModes{"standalone", "cluster", "sentinel"};
constexpr std::size_t kMostVersion = 16;  // bytes; "8.0.1", "255.255.255"

// A malformed number leaves the fact unknown, and no finding guesses.
void take_number(std::string_view text, std::optional<std::uint64_t>& target) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) target = number;
}

// Takes over a word of a list only: a free text could hold the password.
void take_word(std::string_view text, std::span<const std::string_view> known,
               std::string& target) {
  if (std::ranges::find(known, text) != known.end()) target = text;
}

// "8.0.1": numbers and dots.
void take_version(std::string_view text, std::string_view product, ServerFacts& facts) {
  const bool plain = !text.empty() && text.size() <= kMostVersion &&
                     text.find_first_not_of("0123456789.") == std::string_view::npos;
  if (!plain) return;
  facts.product = product;
  facts.version = text;
}

// INFO says "slave", and HELLO says "replica".
void take_role(std::string_view text, ServerFacts& facts) {
  if (text == "master") facts.role = "master";
  if (text == "slave" || text == "replica") facts.role = "replica";
}

}  // namespace

void take_hello(const remote::Reply& hello, ServerFacts& facts) {
  take_version(remote::map_field(hello, "version"),
               remote::map_field(hello, "server") == "valkey" ? "Valkey" : "Redis", facts);
  take_word(remote::map_field(hello, "mode"), kModes, facts.mode);
  take_role(remote::map_field(hello, "role"), facts);
}

// A Valkey reports redis_version as well, for compatibility: valkey_version decides.
void take_info(std::string_view info, ServerFacts& facts) {
  const std::string_view valkey = remote::info_value(info, "valkey_version"),
                         redis = remote::info_value(info, "redis_version");
  if (!valkey.empty() || !redis.empty())
    take_version(valkey.empty() ? redis : valkey, valkey.empty() ? "Redis" : "Valkey", facts);
  take_word(remote::info_value(info, "server_mode"), kModes, facts.mode);
  take_word(remote::info_value(info, "redis_mode"), kModes, facts.mode);
  take_role(remote::info_value(info, "role"), facts);
  take_number(remote::info_value(info, "maxmemory"), facts.max_bytes);
  take_number(remote::info_value(info, "used_memory"), facts.used_bytes);
  take_number(remote::info_value(info, "total_system_memory"), facts.machine_bytes);
  take_number(remote::info_value(info, "connected_slaves"), facts.replicas);
  take_word(remote::info_value(info, "maxmemory_policy"), kPolicies, facts.policy);
  if (const std::string_view on = remote::info_value(info, "aof_enabled"); on == "0" || on == "1")
    facts.append_only = on == "1";
}

void take_config(const remote::Reply& config, ServerFacts& facts) {
  // An error (no right), or an empty list: this server has no such setting.
  if (config.kind != remote::Reply::Kind::kArray || config.elements.size() != 2) return;
  const std::string& name = config.elements[0].text;
  const std::string& value = config.elements[1].text;
  // "3600 1 300 100" are save points; "" is none.
  if (name == "save") facts.snapshots = !value.empty();
  if (name == "io-threads") take_number(value, facts.io_threads);
  if (name == "databases") take_number(value, facts.databases);
  if (name == "cluster-require-full-coverage" && (value == "yes" || value == "no"))
    facts.full_coverage = value == "yes";
}

void take_masters(const remote::Reply& masters, std::string_view name, ServerFacts& facts) {
  for (const remote::Reply& master : masters.elements) {
    if (remote::map_field(master, "name") != name) continue;
    take_number(remote::map_field(master, "quorum"), facts.quorum);
    take_number(remote::map_field(master, "num-other-sentinels"), facts.other_sentinels);
    take_number(remote::map_field(master, "num-slaves"), facts.replicas);
  }
}

}  // namespace larder::backend_check
