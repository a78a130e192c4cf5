#include "sidecar/ctl/lmcache/lmcache.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>

#include "sidecar/base/text.h"
#include "sidecar/config/fields.h"
#include "sidecar/config/reference.h"
#include "sidecar/config/values.h"
#include "sidecar/ctl/lmcache/lmcache_backend.h"
#include "sidecar/ctl/lmcache/lmcache_keys.h"
#include "sidecar/ctl/lmcache/lmcache_values.h"

namespace larder::ctl {
namespace {

constexpr std::uint64_t kDefaultChunkTokens = 256;  // of LMCache and of Larder
// The smallest block of vLLM; a chunk is a multiple of a block.
constexpr std::uint64_t kBlockTokens = 16;

// Settings that turn LMCache from a cache into a transport between engines.
constexpr std::array<std::string_view, 3> kTransports{"enable_pd", "enable_xpyd", "enable_nixl"};

// One comment line about all settings with the same remark.
struct Note {
  Counterpart counterpart;
  std::string names, words;
};

class Import {
 public:
  Status take(const LmcacheSetting& setting);
  // REQUIRES: take() of all settings.
  Result<ImportedLmcache> result();

 private:
  using Converter = Status (Import::*)(const LmcacheSetting&);
  static Converter converter_of(std::string_view key);

  Status chunk_size(const LmcacheSetting& setting);
  Status local_cpu(const LmcacheSetting& setting);
  Status memory_size(const LmcacheSetting& setting);
  Status hugepages(const LmcacheSetting& setting);
  Status numa(const LmcacheSetting& setting);
  Status local_disk(const LmcacheSetting& setting);
  Status disk_size(const LmcacheSetting& setting);
  Status disk();
  Status backend();
  Status unbounded_disk(const LmcacheSetting& setting);
  Status adapter(const LmcacheSetting& setting);
  Status backend_ttl(const LmcacheSetting& setting);
  Status http_host(const LmcacheSetting& setting);
  Status http_port(const LmcacheSetting& setting);
  Status listen(const LmcacheSetting& setting);
  Status shm_name(const LmcacheSetting& setting);
  Status instance(const LmcacheSetting& setting);
  Status peers(const LmcacheSetting& setting);
  Status add_peers();
  Status disaggregated(const LmcacheSetting& setting);
  Status plugins(const LmcacheSetting& setting);
  Status log_level(const LmcacheSetting& setting);

  // Sets a key of larderd; the field of larderd checks the value.
  Status put(const LmcacheSetting& setting, std::string_view key, const std::string& text);
  void note(Counterpart counterpart, const LmcacheSetting& setting, std::string_view words);
  void unknown(const LmcacheSetting& setting);
  std::string comments(Counterpart counterpart, std::string_view title) const;

  config::Config config_;
  std::optional<LmcacheSetting> disk_path_, disk_size_;  // the size in the form of larderd
  std::optional<LmcacheSetting> peers_;                  // the setting that turns peers on
  LmcacheBackend backend_;
  std::string http_host_ = "127.0.0.1", http_port_ = "8080";  // the defaults of LMCache
  std::vector<std::string> to_do_;                            // for the user
  std::string chunk_tokens_;                                  // empty: the default
  std::map<std::string, std::string, std::less<>> values_;    // of larderd's keys
  std::vector<Note> notes_;
  std::map<Counterpart, std::size_t> counted_;  // the number of settings with a note
  std::vector<std::string> unknown_;
};

// The field of larderd checks the value, so an import never writes a configuration that larderd
// refuses.
Status Import::put(const LmcacheSetting& setting, std::string_view key, const std::string& text) {
  const config::Field* field = config::find_field(key);
  // A key that was renamed in fields.cc and not here.
  if (field == nullptr) return {Code::kInternal, "larderd has no key " + std::string(key)};
  if (const Status status = field->parse(text, config_); !status.ok())
    return refuse(setting, status.text());
  values_[std::string(key)] = text;
  return {};
}

void Import::note(Counterpart counterpart, const LmcacheSetting& setting, std::string_view words) {
  const std::string name = setting.key + " (" + setting.where + ")";
  ++counted_[counterpart];
  // LMCache has families of settings (pd_*, p2p_*). One remark for each family keeps the result
  // readable.
  for (Note& note : notes_) {
    if (note.counterpart != counterpart || note.words != words) continue;
    note.names += ", " + name;
    return;
  }
  notes_.push_back({counterpart, name, std::string(words)});
}

void Import::unknown(const LmcacheSetting& setting) {
  // LMCache ignores a misspelt setting silently, so the user may never have had its effect.
  const std::string_view nearest = nearest_lmcache_key(setting.key);
  unknown_.push_back(setting.key + " (" + setting.where + "): " +
                     (nearest.empty() ? "left out, because LMCache ignores unknown settings"
                                      : "left out; was " + std::string(nearest) + " meant?"));
}

Status Import::chunk_size(const LmcacheSetting& setting) {
  std::uint64_t tokens = 0;
  if (!config::parse_number(setting.text, tokens) || tokens == 0)
    return refuse(setting, "is no number of tokens");
  // A later setting replaces an earlier one, also by the default.
  chunk_tokens_.clear();
  if (tokens == kDefaultChunkTokens) return {};
  // chunk_tokens goes to the engine and not to larderd, so no field checks the number.
  if (tokens % kBlockTokens == 0 && tokens <= UINT32_MAX)
    chunk_tokens_ = std::to_string(tokens);
  else
    note(Counterpart::kNone, setting,
         setting.text +
             " tokens are no multiple of vLLM's block of 16: chunks keep their default size");
  return {};
}

// Without local_cpu the memory of LMCache is only a buffer on the way to a disk or a remote store.
// The memory of larderd replaces the buffer: the same chunks reach disk and backend, and some hits
// are faster.
Status Import::local_cpu(const LmcacheSetting& setting) {
  const Result<bool> kept = read_bool(setting);
  if (!kept.ok()) return kept.status();
  if (!*kept)
    note(Counterpart::kAlways, setting,
         "LMCache's memory is a buffer alone then; larderd's memory of memory.size keeps KV too, "
         "beside disk and backend");
  return {};
}

Status Import::memory_size(const LmcacheSetting& setting) {
  const Result<std::string> size = read_gib(setting);
  return size.ok() ? put(setting, "memory.size", *size) : size.status();
}

Status Import::hugepages(const LmcacheSetting& setting) {
  const Result<bool> huge = read_bool(setting);
  if (!huge.ok()) return huge.status();
  return *huge ? put(setting, "memory.hugepages", "2Mi") : Status();
}

// The manual mode of LMCache gives each GPU a node of its own.
Status Import::numa(const LmcacheSetting& setting) {
  const std::string mode = base::lower(setting.text);
  if (is_nothing(mode)) return {};
  if (mode == "auto") return put(setting, "memory.numa", mode);
  if (mode != "manual") return refuse(setting, "is neither auto nor manual");
  note(Counterpart::kNone, setting, find_lmcache_key("extra_config.gpu_to_numa_mapping")->words);
  return {};
}

Status Import::local_disk(const LmcacheSetting& setting) {
  disk_path_.reset();
  // Kept until result(): path and size may come in any order, and from file and environment.
  if (!is_nothing(setting.text)) disk_path_ = setting;
  return {};
}

Status Import::disk_size(const LmcacheSetting& setting) {
  const Result<std::string> size = read_gib(setting);
  if (!size.ok()) return size.status();
  disk_size_.reset();
  // 0 means "no disk" in LMCache.
  if (*size != config::print_size(0)) disk_size_ = {setting.key, *size, setting.where};
  return {};
}

// LMCache and larderd both need path and size for a disk tier. Called after all settings are known.
Status Import::disk() {
  if (disk_path_ && !disk_size_)
    note(Counterpart::kAlways, *disk_path_,
         "LMCache stores no chunk there without max_local_disk_size: no disk tier");
  if (disk_size_ && !disk_path_)
    note(Counterpart::kAlways, *disk_size_,
         "LMCache stores no chunk on a disk without local_disk: no disk tier");
  if (!disk_path_ || !disk_size_) return {};
  static constexpr std::string_view kScheme = "file://";
  const std::string& text = disk_path_->text;
  const std::string path = text.substr(text.starts_with(kScheme) ? kScheme.size() : 0);
  // The path goes into YAML. A path with blanks or quotes is left to the user.
  const bool plain = std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-';
  });
  if (!path.starts_with('/') || !plain) {
    note(Counterpart::kNone, *disk_path_,
         path + (plain ? " is a path from where the engine starts" : " is no plain path") +
             ": set disk.path to a directory that exists, as an absolute path, and disk.size to " +
             disk_size_->text);
    return {};
  }
  if (const Status status = put(*disk_path_, "disk.path", path); !status.ok()) return status;
  return put(*disk_size_, "disk.size", disk_size_->text);
}

// Errors never contain the text of a URL, which may hold a password.
Status Import::backend() {
  LmcacheBackend::Result result = backend_.result();
  for (const LmcacheBackend::Note& said : result.notes)
    note(said.counterpart, said.setting, said.words);
  for (const LmcacheBackend::Value& value : result.values) {
    const Status status = config::find_field(value.key)->parse(value.text, config_);
    if (!status.ok())
      return {status.code(), value.from.where + ": " + value.from.key + " " + status.text()};
    values_[value.key] = value.text;
  }
  // Passwords and the like: steps that an import cannot do, since the result never contains a
  // secret.
  to_do_.insert(to_do_.end(), result.to_do.begin(), result.to_do.end());
  return {};
}

// An adapter without a capacity has no bound, but larderd reserves its disk at the start: the user
// must choose a size.
Status Import::unbounded_disk(const LmcacheSetting& setting) {
  note(Counterpart::kNone, setting,
       "files there have no bound, but a disk tier has a size: set disk.path to " + setting.text +
           " and choose disk.size");
  return {};
}

Status Import::adapter(const LmcacheSetting& setting) {
  note(Counterpart::kNone, setting,
       "larderd has no tier for " + setting.text +
           ", only one disk (disk.path, disk.size) and one Redis or Valkey (backend.url)");
  return {};
}

Status Import::backend_ttl(const LmcacheSetting& setting) {
  // LMCache counts in seconds without a unit.
  return put(setting, "backend.ttl", setting.text + "s");
}

Status Import::http_host(const LmcacheSetting& setting) {
  http_host_ = setting.text;
  return listen(setting);
}

Status Import::http_port(const LmcacheSetting& setting) {
  http_port_ = setting.text;
  return listen(setting);
}

Status Import::listen(const LmcacheSetting& setting) {
  const bool bare = http_host_.find(':') != std::string::npos && !http_host_.starts_with('[');
  // Called for host and port, so the last call has both.
  return put(setting, "http.listen",
             (bare ? "[" + http_host_ + "]" : http_host_) + ":" + http_port_);
}

// LMCache allows names that larderd does not: such a name becomes a comment.
Status Import::shm_name(const LmcacheSetting& setting) {
  if (!is_nothing(setting.text) && !put(setting, "memory.shm_name", setting.text).ok())
    note(Counterpart::kNone, setting,
         "is not allowed as memory.shm_name; the default follows pool");
  return {};
}

Status Import::instance(const LmcacheSetting& setting) {
  if (!put(setting, "pool", setting.text).ok())
    note(Counterpart::kNone, setting,
         "is no name of a pool: pool names larderd's socket and shared memory");
  return {};
}

// enable_p2p is a truth value; an address for peers (--p2p-advertise-url) turns peers on by itself.
Status Import::peers(const LmcacheSetting& setting) {
  peers_.reset();
  if (setting.key == "enable_p2p") {
    const Result<bool> on = read_bool(setting);
    if (!on.ok()) return on.status();
    if (*on) peers_ = setting;
  } else if (!is_nothing(setting.text)) {
    peers_ = setting;
  }
  return {};
}

// LMCache's controller knows the members, and its transfers have no certificates: the user must
// give both to larderd. Called after all settings are known, since the name follows the pool.
Status Import::add_peers() {
  if (!peers_) return {};
  const std::string folder = "/etc/larder/peers/", name = config_.pool + ".larder";
  const std::pair<const char*, std::string> values[] = {{"peers.listen", "0.0.0.0:9466"},
                                                        {"peers.ca_file", folder + "ca.crt"},
                                                        {"peers.cert_file", folder + "tls.crt"},
                                                        {"peers.key_file", folder + "tls.key"},
                                                        {"peers.server_name", name}};
  for (const auto& [key, text] : values)
    if (const Status status = put(*peers_, key, text); !status.ok()) return status;
  to_do_.emplace_back(
      "name the other larderd in peers.members: HOST:9466,HOST:9466 or dns:NAME:9466 (in "
      "Kubernetes, spec.peers of a CachePool does all of this)");
  to_do_.push_back("put certificates with the DNS name " + name + " into " + folder +
                   ", or replace the four keys by peers.plaintext: true for a network that you "
                   "trust");
  return {};
}

Status Import::disaggregated(const LmcacheSetting& setting) {
  const Result<bool> on = read_bool(setting);
  if (!on.ok()) return on.status();
  if (!*on) return {};
  // An error and no comment: the user would lose the function for which LMCache was set up.
  return refuse(
      setting,
      "moves KV from prefill to decode engines; Larder stores KV and is no such transport");
}

// A list of plugin names. The plugin for Redis has a URL setting of its own; larderd has no
// counterpart of other plugins. LMCache allows several instances of a plugin, "redis.primary".
Status Import::plugins(const LmcacheSetting& setting) {
  std::string names = setting.text;
  std::ranges::replace_if(
      names, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '.'; }, ' ');
  std::istringstream words(names);
  for (std::string name; words >> name;)
    if (name.substr(0, name.find('.')) != "redis")
      note(Counterpart::kNone, setting, "larderd has no plugin " + name);
  return {};
}

Status Import::log_level(const LmcacheSetting& setting) {
  const std::string level = base::lower(setting.text);
  if (level == "info") return {};
  return put(setting, "log_level", level == "critical" ? "error" : level);
}

Import::Converter Import::converter_of(std::string_view key) {
  static const std::map<std::string_view, Converter> kConverters{
      // Settings that need more than a remark. All other keys come from the table in
      // lmcache_keys.cc.
      {"chunk_size", &Import::chunk_size},
      {"local_cpu", &Import::local_cpu},
      {"max_local_cpu_size", &Import::memory_size},
      {"local_cpu_use_hugepages", &Import::hugepages},
      {"numa_mode", &Import::numa},
      {"local_disk", &Import::local_disk},
      {"max_local_disk_size", &Import::disk_size},
      {"enable_p2p", &Import::peers},
      {"--p2p-advertise-url", &Import::peers},
      {"enable_pd", &Import::disaggregated},
      {"enable_xpyd", &Import::disaggregated},
      {"enable_nixl", &Import::disaggregated},
      {"remote_storage_plugins", &Import::plugins},
      {"log_level", &Import::log_level},
      {"--l2-adapter", &Import::adapter},
      {"--l2-adapter.base_path", &Import::unbounded_disk},
      {"--l2-adapter.ttl_seconds", &Import::backend_ttl},
      {"--http-host", &Import::http_host},
      {"--http-port", &Import::http_port},
      {"--shm-name", &Import::shm_name},
      {"--instance-id", &Import::instance},
  };
  const auto found = kConverters.find(key);
  return found == kConverters.end() ? nullptr : found->second;
}

Status Import::take(const LmcacheSetting& setting) {
  if (LmcacheBackend::has(setting.key)) return backend_.take(setting);
  const LmcacheKey* known = find_lmcache_key(setting.key);
  if (const Converter converter = converter_of(setting.key)) return (this->*converter)(setting);
  const bool nested = setting.key.find('.') != std::string::npos;
  // Keys of maps (extra_config, an adapter) belong to plugins, so an unknown one is mostly no
  // typing error.
  if (known == nullptr && nested)
    note(Counterpart::kNone, setting, "Larder does not know it");
  else if (known == nullptr)
    unknown(setting);
  else if (known->counterpart == Counterpart::kAlways)
    note(known->counterpart, setting, known->words);
  // A feature that is switched off, or has the value that Larder always uses, needs no remark.
  else if (!is_nothing(setting.text) && base::lower(setting.text) != "false" &&
           base::lower(setting.text) != base::lower(known->same))
    note(known->counterpart, setting, known->words);
  return {};
}

std::string Import::comments(Counterpart counterpart, std::string_view title) const {
  std::string text;
  for (const Note& note : notes_)
    if (note.counterpart == counterpart)
      text += "#   " + base::printable(note.names + ": " + note.words) + "\n";
  return text.empty() ? "" : "# " + std::string(title) + ":\n" + text;
}

// The comments come first, so the user reads them before the values.
Result<ImportedLmcache> Import::result() {
  if (Status status = disk(); !status.ok()) return status;
  if (Status status = add_peers(); !status.ok()) return status;
  if (Status status = backend(); !status.ok()) return status;
  ImportedLmcache imported;
  const std::string chunk =
      chunk_tokens_.empty()
          ? ""
          : R"(,"kv_connector_extra_config":{"chunk_tokens":)" + chunk_tokens_ + "}";
  imported.yaml =
      "# Larder's configuration, converted from LMCache's. Check this file: larderd --check-config "
      "--config THIS-FILE\n"
      "# Give vLLM this option instead of LMCache's connector:\n"
      R"(#   --kv-transfer-config '{"kv_connector":"LarderConnector",)"
      R"("kv_connector_module_path":"larder.vllm","kv_role":"kv_both")" +
      chunk + "}'\n";
  if (!to_do_.empty()) imported.yaml += "# To do:\n";
  for (const std::string& words : to_do_) imported.yaml += "#   " + base::printable(words) + "\n";
  imported.yaml += comments(Counterpart::kAlways, "No setting needed");
  imported.yaml += comments(Counterpart::kNone, "Without counterpart");
  if (!unknown_.empty()) imported.yaml += "# Not known as settings of LMCache:\n";
  for (const std::string& words : unknown_) imported.yaml += "#   " + base::printable(words) + "\n";

  config::YamlWriter writer;
  for (const auto& [key, text] : values_) writer.add(key, text);
  imported.yaml += writer.yaml();
  // larderctl prints the number, because the result is often redirected into a file.
  imported.unserved = unknown_.size();
  for (const auto& [counterpart, count] : counted_)
    imported.unserved += counterpart == Counterpart::kAlways ? 0 : count;
  return imported;
}

}  // namespace

Result<ImportedLmcache> import_lmcache(std::span<const LmcacheSetting> settings) {
  // LMCache's own default, and not larderd's: the machine keeps as much KV as before. A set size
  // replaces the value.
  static const LmcacheSetting kDefaultSize{"max_local_cpu_size", "5.0", "LMCache's default"};
  Import import;
  if (Status status = import.take(kDefaultSize); !status.ok()) return status;
  // Settings that make the import impossible come first, before errors that the user could correct.
  for (const bool transport : {true, false}) {
    for (const LmcacheSetting& setting : settings) {
      if (is_one_of(setting.key, kTransports) != transport) continue;
      if (Status status = import.take(setting); !status.ok()) return status;
    }
  }
  return import.result();
}

}  // namespace larder::ctl
