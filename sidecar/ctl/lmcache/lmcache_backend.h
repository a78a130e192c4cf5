// Collects LMCache's settings of a remote store, and converts them to backend.* keys. The result
// never contains a password, only a note that a password exists. Pure; thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/ctl/lmcache/lmcache_keys.h"
#include "sidecar/ctl/lmcache/lmcache_settings.h"

namespace larder::ctl {

struct PluginStore;  // a store that Larder reaches by a plug-in

class LmcacheBackend {
 public:
  // Whether `key` is a setting of a remote store. take() keeps such a setting; an error is a
  // malformed value.
  static bool has(std::string_view key);
  Status take(const LmcacheSetting& setting);

  struct Value {
    std::string key, text;  // of larderd
    LmcacheSetting from;    // without the text
  };
  struct Note {
    Counterpart counterpart;
    LmcacheSetting setting;  // without its text
    std::string words;
  };
  struct Result {
    std::vector<Value> values;
    std::vector<Note> notes;
    std::vector<std::string> to_do;  // for the user, before larderd starts
  };
  // REQUIRES: take() of all settings.
  Result result() const;

 private:
  struct Url {
    std::string scheme, user, place,
        // "redis"; "host:port,host:port", or the path of a socket; "/2", "/mymaster"
        path;
    bool password = false, query = false;
  };
  static Url split(std::string_view text);

  enum class Mode { kStandalone, kSentinel, kCluster };
  Mode mode_of(const Url& url) const;
  void plugin_store(const PluginStore& store, const Url& url, Result& result) const;
  void server(const Url& url, Mode mode, Result& result) const;
  std::string path_of(const Url& url, Mode mode, const LmcacheSetting& from, Result& result) const;
  void password(const Url& url, const std::string& user, const LmcacheSetting& from,
                Result& result) const;
  void all_are(Counterpart counterpart, const std::string& words, Result& result) const;

  std::optional<LmcacheSetting> url_;  // the text may hold a password
  bool plugin_url_ = false;  // `url_` is of LMCache's plugin for Redis, and wins over remote_url
  std::string host_, port_, user_, database_;
  std::optional<LmcacheSetting> password_;
  bool tls_ = false, cluster_ = false;
  std::vector<LmcacheSetting> others_;  // all settings except the URL, without texts
};

}  // namespace larder::ctl
