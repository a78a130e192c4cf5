#include "sidecar/ctl/lmcache/lmcache_backend.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "sidecar/config/values.h"
#include "sidecar/ctl/lmcache/lmcache_values.h"

namespace larder::ctl {

// LMCache's scheme, Larder's scheme, and the words about the service.
struct PluginStore {
  std::string_view theirs, ours, settings, warning;
};

namespace {

// Three ways to one server: remote_url, the plugin for Redis, and the native RESP and Valkey
// clients with fields of their own.
constexpr std::array<std::string_view, 15> kBackendKeys{
    "remote_url",
    "extra_config.remote_storage_plugin.redis.redis_url",
    "extra_config.redis_url",
    "resp_host",
    "resp_port",
    "resp_username",
    "resp_password",
    "extra_config.redis_username",
    "extra_config.redis_password",
    "extra_config.username",
    "extra_config.password",
    "extra_config.valkey_username",
    "extra_config.valkey_password",
    "extra_config.valkey_database",
    "extra_config.tls_enable"};
constexpr std::string_view kModeKey = "extra_config.valkey_mode";
constexpr std::array<std::string_view, 6> kServed{"redis",   "rediss", "valkey",
                                                  "valkeys", "unix",   "resp"};
// Only suggestions: the user writes the file, and starts the plug-in.
constexpr std::string_view kPasswordFile = "/etc/larder/backend.password";
constexpr std::array<PluginStore, 2> kPluginStores{
    {{"mooncakestore", "mooncake",
      "; --protocol, --devices, --metadata, --contribute and --host take LMCache's protocol, "
      "device_name, metadata_server, global_segment_size and local_hostname of extra_config",
      "put a firewall or NetworkPolicy around Mooncake, which has no TLS and no authentication"},
     {"infinistore", "infinistore",
      "; larder-infinistore speaks TCP alone, so a device of the URL has no counterpart",
      "put a firewall or NetworkPolicy around InfiniStore, which has no TLS and no "
      "authentication; InfiniStore has no release since April 2025, so prefer Valkey or "
      "Mooncake"}}};
constexpr std::string_view kSentinel = "-sentinel", kCluster = "-cluster";
constexpr std::string_view kTheirMaster = "redismaster";  // LMCache's default

// Percent-encodes a user name for a URL.
std::string encoded(std::string_view name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.')
      text += c;
    else
      text += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return text;
}

// Whether a path needs no quoting in YAML and no encoding in a URL.
bool is_plain(std::string_view path) {
  return std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-';
  });
}

// "redis-sentinel" gives "redis".
std::string without_suffix(std::string_view scheme) {
  for (const std::string_view suffix : {kSentinel, kCluster})
    if (scheme.ends_with(suffix)) scheme.remove_suffix(suffix.size());
  return std::string(scheme);
}

}  // namespace

bool LmcacheBackend::has(std::string_view key) {
  return key == kModeKey || std::ranges::find(kBackendKeys, key) != kBackendKeys.end();
}

Status LmcacheBackend::take(const LmcacheSetting& setting) {
  const std::string& key = setting.key;
  const bool url = key.ends_with("_url"), plugin = url && key != "remote_url";
  if (url && !plugin && plugin_url_) return {};  // the precedence of LMCache
  if (url) url_.reset();
  if (is_nothing(setting.text)) return {};
  if (url) {
    const std::size_t end = setting.text.find("://");
    // The error leaves out the text, which may hold a password.
    if (end == std::string::npos || end == 0)
      return {Code::kInvalidArgument,
              setting.where + ": " + key + " is no URL: PROTOCOL://HOST:PORT is wanted"};
    url_ = setting;
    plugin_url_ = plugin;
    return {};
  }
  // Without the text: others_ ends in comments, and one of these keys is the password.
  others_.push_back({key, "", setting.where});
  // Noted as present only, without the password.
  if (key.ends_with("password")) password_ = {key, "", setting.where};
  if (key.ends_with("username")) user_ = encoded(setting.text);
  if (key == "resp_host") host_ = setting.text;
  if (key == "resp_port") port_ = setting.text;
  if (key == "extra_config.valkey_database" && setting.text != "0") database_ = "/" + setting.text;
  if (key == kModeKey) cluster_ = base::lower(setting.text) == "cluster";
  if (key != "extra_config.tls_enable") return {};
  const larder::Result<bool> on = read_bool(setting);
  if (!on.ok()) return on.status();
  tls_ = *on;
  return {};
}

// The last '@' ends user and password. In the path of a socket '@' has no meaning.
LmcacheBackend::Url LmcacheBackend::split(std::string_view text) {
  Url url;
  const std::size_t end = text.find("://");
  url.scheme = base::lower(text.substr(0, end));
  std::string_view rest = text.substr(end + 3);
  if (const std::size_t at = rest.rfind('@');
      at != std::string_view::npos && !rest.starts_with('/')) {
    const std::string_view who = rest.substr(0, at);
    url.user = who.substr(0, who.find(':'));
    url.password = who.find(':') != std::string_view::npos;
    rest.remove_prefix(at + 1);
  }
  // Options of a client, such as "?ssl_cert_reqs=none". larderd's URL has none, and the user gets a
  // note.
  if (const std::size_t query = rest.find('?'); query != std::string_view::npos) {
    url.query = true;
    rest = rest.substr(0, query);
  }
  const std::size_t slash = url.scheme == "unix" ? std::string_view::npos : rest.find('/');
  url.place = rest.substr(0, slash);
  if (url.scheme != "unix") std::erase(url.place, ' ');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) url.path = rest.substr(slash);
  return url;
}

LmcacheBackend::Result LmcacheBackend::result() const {
  Result result;
  Url url;
  if (url_) url = split(url_->text);
  if (!url_ && host_.empty()) {
    all_are(Counterpart::kAlways, "LMCache uses the setting only with a remote_url", result);
    return result;
  }
  // The native client has host and port settings and no URL.
  if (!url_) url.scheme = "resp";
  if (url.place.empty() && url.scheme == "resp" && !host_.empty()) {
    const bool bare = host_.find(':') != std::string::npos && !host_.starts_with('[');
    url.place = (bare ? "[" + host_ + "]" : host_) + (port_.empty() ? "" : ":" + port_);
  }
  const std::string shown = url.scheme + "://" + url.place + url.path;
  const auto url_is = [&](Counterpart counterpart, const std::string& words) {
    if (url_) result.notes.push_back({counterpart, {url_->key, "", url_->where}, words});
  };
  // The server of LMCache speaks a protocol of its own.
  if (url.scheme == "lm") {
    url_is(
        Counterpart::kNone,
        shown +
            " is LMCache's own server. Engines of one machine share one larderd instead. Between "
            "machines, set backend.url to a Redis or Valkey");
  } else if (const auto* store = std::ranges::find(kPluginStores, url.scheme, &PluginStore::theirs);
             store != kPluginStores.end()) {
    plugin_store(*store, url, result);
  } else if (!is_one_of(without_suffix(url.scheme), kServed)) {
    // For example s3: the scheme is shown, and never the rest with a possible secret.
    url_is(Counterpart::kNone, shown + ": Larder has no backend for " + url.scheme);
  } else {
    server(url, mode_of(url), result);
  }
  return result;
}

LmcacheBackend::Mode LmcacheBackend::mode_of(const Url& url) const {
  if (url.scheme == "unix") return Mode::kStandalone;
  if (url.scheme.ends_with(kSentinel)) return Mode::kSentinel;
  // LMCache takes several hosts for the nodes of a Cluster.
  const bool several = url.place.find(',') != std::string::npos;
  return cluster_ || several || url.scheme.ends_with(kCluster) ? Mode::kCluster : Mode::kStandalone;
}

// LMCache's client of the store is in the engine's process, Larder's is a plug-in. The other
// settings are arguments of the plug-in.
void LmcacheBackend::plugin_store(const PluginStore& store, const Url& url, Result& result) const {
  const LmcacheSetting from{url_->key, "", url_->where};
  const std::string name(store.ours), socket = "/run/larder/" + name + ".sock";
  result.values.push_back({"backend.url", name + "://" + url.place, from});
  result.values.push_back({"backend.plugin_socket", socket, from});
  result.to_do.push_back("start larder-" + name + " beside larderd, with --socket " + socket +
                         std::string(store.settings));
  result.to_do.emplace_back(store.warning);
}

void LmcacheBackend::server(const Url& url, Mode mode, Result& result) const {
  const bool socket = url.scheme == "unix";
  const LmcacheSetting from = url_ ? LmcacheSetting{url_->key, "", url_->where}
                                   : LmcacheSetting{"resp_host", "", others_.front().where};
  if (socket && !is_plain(url.place)) {
    result.notes.push_back(
        {Counterpart::kNone, from, "is no plain path: set backend.url to unix:// and the path"});
    return;
  }
  std::string scheme = without_suffix(url.scheme);
  // RESP is the protocol of Redis and Valkey, and larderd's client speaks RESP.
  if (scheme == "resp") scheme = "redis";
  if (tls_ && !socket && !scheme.ends_with("s")) scheme += "s";
  if (mode != Mode::kStandalone) scheme += mode == Mode::kSentinel ? kSentinel : kCluster;
  const std::string user = url.user.empty() ? user_ : url.user;
  const std::string path = path_of(url, mode, from, result);
  result.values.push_back(
      {"backend.url", scheme + "://" + (user.empty() ? "" : user + "@") + url.place + path, from});
  if (url.query)
    result.notes.push_back(
        {Counterpart::kNone, from, "the query of the URL, behind '?', is left out"});
  if (socket && !database_.empty())
    result.notes.push_back({Counterpart::kNone,
                            {"extra_config.valkey_database", "", from.where},
                            "larderd uses database 0 over a Unix socket"});
  password(url, user, from, result);
  result.to_do.emplace_back(
      "larderctl backend check --config THIS-FILE checks the server and its settings");
}

// The database, or for Sentinels the name of the master, which LMCache takes from an environment
// variable.
std::string LmcacheBackend::path_of(const Url& url, Mode mode, const LmcacheSetting& from,
                                    Result& result) const {
  if (mode == Mode::kStandalone)
    return url.path.empty() && url.scheme != "unix" ? database_ : url.path;
  if (mode == Mode::kCluster) {
    if (!database_.empty() || (!url.path.empty() && url.path != "/0"))
      result.notes.push_back({Counterpart::kNone, from, "a Cluster has database 0 alone"});
    return "";
  }
  const std::string master = url.path.empty() ? "/" + std::string(kTheirMaster) : url.path;
  result.to_do.push_back("is " + master.substr(1) +
                         " the name under which the Sentinels know the master? LMCache takes " +
                         "$REDIS_SERVICE_NAME, or " + std::string(kTheirMaster));
  return master;
}

void LmcacheBackend::password(const Url& url, const std::string& user, const LmcacheSetting& from,
                              Result& result) const {
  // A user without a password would make an invalid configuration (check_backend() in loader.cc).
  if (!url.password && !password_ && user.empty()) return;
  const LmcacheSetting& holder = password_ && !url.password ? *password_ : from;
  result.values.push_back({"backend.password_file", std::string(kPasswordFile), holder});
  result.to_do.push_back("write the password (" + holder.key + ", " + holder.where + ") into " +
                         std::string(kPasswordFile) + ", which larderd's user alone may read");
}

void LmcacheBackend::all_are(Counterpart counterpart, const std::string& words,
                             Result& result) const {
  for (const LmcacheSetting& setting : others_)
    result.notes.push_back({counterpart, setting, words});
}

}  // namespace larder::ctl
