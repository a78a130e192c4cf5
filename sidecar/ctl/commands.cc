#include "sidecar/ctl/commands.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "shim/protocol/limits.h"
#include "sidecar/base/text.h"
#include "sidecar/config/loader.h"
#include "sidecar/ctl/admin_client.h"
#include "sidecar/ctl/backend_check.h"
#include "sidecar/ctl/hashes.h"
#include "sidecar/ctl/lmcache/lmcache.h"
#include "sidecar/ctl/lmcache/lmcache_server.h"
#include "sidecar/ctl/lmcache/lmcache_settings.h"
#include "sidecar/ctl/payload.h"
#include "sidecar/ctl/peers_screen.h"
#include "sidecar/ctl/report.h"
#include "sidecar/ctl/simulate.h"
#include "sidecar/ctl/snapshot.h"
#include "sidecar/ctl/status_screen.h"
#include "sidecar/ctl/trace_recorder.h"
#include "sidecar/ctl/volume_folders.h"
#include "sidecar/ctl/watch.h"

namespace larder::ctl {
namespace {

constexpr std::size_t kHelpColumn = 24;
constexpr bool kForPods = true;

// The same configuration as larderd's, so that larderctl in larderd's container needs no option.
Result<std::string> admin_socket(const Arguments& arguments) {
  if (!arguments.socket.empty()) return arguments.socket;
  const Result<config::Config> config = config::load(std::nullopt, config::process_environment());
  if (!config.ok()) return config.status();
  return config->http.admin_socket;
}

// Sends one request to larderd. `report` turns the reply into words; --json, or a null `report`,
// prints the reply unchanged.
Result<std::string> ask(const Arguments& arguments, Verb verb, const std::string& path,
                        Result<std::string> (*report)(const std::string&)) {
  const Result<std::string> socket = admin_socket(arguments);
  if (!socket.ok()) return socket;
  const Result<std::string> answer = ask_larderd(*socket, verb, path);
  // --json prints the reply of larderd unchanged: scripts read JSON, people read the screen, and
  // the screen may change.
  return answer.ok() && report != nullptr && !arguments.json ? report(*answer) : answer;
}

Result<std::string> status_report(const std::string& json) {
  const Result<Snapshot> snapshot = read_snapshot(json);
  if (!snapshot.ok()) return snapshot.status();
  return status_screen(*snapshot);
}
Result<std::string> status(const Arguments& arguments) {
  return ask(arguments, Verb::kGet, "/v1/status", status_report);
}
Result<std::string> peers_report(const std::string& json) {
  const Result<Snapshot> snapshot = read_snapshot(json);
  if (!snapshot.ok()) return snapshot.status();
  return peers_screen(*snapshot);
}
Result<std::string> peers(const Arguments& arguments) {
  return ask(arguments, Verb::kGet, "/v1/status", peers_report);
}
// alive, ready and started print the probe pages of larderd or of the supervisor, for probes that
// can only run a program. A status other than 200 is an error.
Result<std::string> alive(const Arguments& arguments) {
  return ask(arguments, Verb::kGet, "/healthz", nullptr);
}
// For a readiness probe: 503 while larderd starts becomes exit status 1.
Result<std::string> ready(const Arguments& arguments) {
  return ask(arguments, Verb::kGet, "/readyz", nullptr);
}
Result<std::string> started(const Arguments& arguments) {
  return ask(arguments, Verb::kGet, "/startupz", nullptr);
}
Result<std::string> drop(const Arguments& arguments) {
  return ask(arguments, Verb::kPost, "/v1/drop?namespace=" + percent_encoded(arguments.words[1]),
             dropped_report);
}
Result<std::string> clear(const Arguments& arguments) {
  return ask(arguments, Verb::kPost, "/v1/clear", dropped_report);
}

// A verb on the chunks of many hashes, split into requests within the limit.
Result<std::string> act(const Arguments& arguments, const std::string& path,
                        std::string_view done) {
  // All hashes are read before the first request: after a typing error in the last line no chunk
  // has changed.
  const Result<std::vector<std::string>> hashes =
      read_hashes(std::span(arguments.words).subspan(2), arguments.hashes_file);
  if (!hashes.ok()) return hashes.status();
  const Result<std::string> socket = admin_socket(arguments);
  if (!socket.ok()) return socket;
  protocol::ActCounts acted;
  for (std::span<const std::string> rest(*hashes); !rest.empty();) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), protocol::kMaxKeysPerAct));
    rest = rest.subspan(part.size());
    const Result<std::string> answer =
        ask_larderd(*socket, Verb::kPost, path, hashes_request(arguments.words[1], part));
    // Earlier parts stay done. All verbs may be repeated, so the user runs the command once more.
    if (!answer.ok()) return answer;
    const Result<protocol::ActCounts> more = read_acted(*answer);
    if (!more.ok()) return more.status();
    acted += *more;
  }
  return arguments.json ? acted_json(acted) : acted_report(done, acted);
}
Result<std::string> prefetch(const Arguments& arguments) {
  return act(arguments, "/v1/prefetch", "prefetched");
}
Result<std::string> pin(const Arguments& arguments) {
  return act(arguments, "/v1/pin", "pinned");
}
Result<std::string> unpin(const Arguments& arguments) {
  return act(arguments, "/v1/unpin", "unpinned");
}
Result<std::string> evict(const Arguments& arguments) {
  return act(arguments, "/v1/evict", "evicted");
}

// --json has no meaning here: the trace itself is JSON, one request a line.
Result<std::string> trace(const Arguments& arguments) {
  const Result<std::string> socket = admin_socket(arguments);
  if (!socket.ok()) return socket;
  return record_trace(*socket, arguments.output, arguments.seconds);
}

// watch() prints each screen itself, so the output of the command is empty.
Result<std::string> top(const Arguments& arguments) {
  if (arguments.json)
    return Status(Code::kInvalidArgument, "top has no JSON output; use `larderctl --json status`");
  const Result<std::string> socket = admin_socket(arguments);
  if (!socket.ok()) return socket;
  if (Status ended = watch(*socket, arguments.interval_seconds, arguments.iterations); !ended.ok())
    return ended;
  return std::string();
}

Result<std::vector<LmcacheSetting>> lmcache_settings(const Arguments& arguments) {
  const std::optional<std::string> file =
      arguments.words.size() > 1 ? std::optional(arguments.words[1]) : std::nullopt;
  if (arguments.command_line.empty())
    return read_lmcache_settings(file, config::process_environment());
  // The two sources describe two different programs of LMCache, so one of them would be a mistake.
  if (file)
    return Status(Code::kInvalidArgument,
                  "import-lmcache takes a file or the command line of a server, not both");
  return read_lmcache_server(arguments.command_line, config::process_environment());
}

// Prints the configuration to standard output, for redirection into a file. The count of unserved
// settings goes to standard error.
Result<std::string> import_from_lmcache(const Arguments& arguments) {
  const Result<std::vector<LmcacheSetting>> settings = lmcache_settings(arguments);
  if (!settings.ok()) return settings.status();
  // Without any setting the result would be a file of defaults, and would look like a success.
  if (settings->empty() && arguments.words.size() == 1 && arguments.command_line.empty())
    return Status(Code::kNotFound,
                  "import which configuration? Name LMCache's file, set the LMCACHE_* variables, "
                  "or write the command line of LMCache's server behind --");
  const Result<ImportedLmcache> imported = import_lmcache(*settings);
  if (!imported.ok()) return imported.status();
  if (imported->unserved != 0)
    std::fprintf(stderr,
                 "larderctl: Larder does not serve %zu of LMCache's settings; the comments name "
                 "each setting and the reason\n",
                 imported->unserved);
  return imported->yaml;
}

// Wraps a command without an exit status of its own: success is 0.
template <Result<std::string> (*run)(const Arguments&)>
Result<Outcome> plainly(const Arguments& arguments) {
  Result<std::string> text = run(arguments);
  if (!text.ok()) return text.status();
  return Outcome{*std::move(text)};
}

// More hashes come from a file: the kernel bounds a command line, too.
constexpr std::size_t kManyWords = 1 << 16;
constexpr std::string_view kWhichNamespace = "which namespace? `larderctl status` lists them";

// A row has the name, the operands, their least and most number, the error without operands, the
// help, and the function.
constexpr auto kCommands = std::to_array<Command>({
    {"status", "", 0, 0, "", "show hits, saved prefill time, memory and sessions", plainly<status>},
    {"top", "", 0, 0, "",
     "show hits, tokens, bytes and evictions a second, memory and sessions, live; Ctrl-C ends top",
     plainly<top>},
    {"peers", "", 0, 0, "",
     "show which larderd of the pool this larderd asks, and what it serves to them",
     plainly<peers>},
    {"ready", "", 0, 0, "", "ask whether larderd serves engines. Exit status 0 or 1: for a probe",
     plainly<ready>, 1, kForPods},
    {"alive", "", 0, 0, "", "ask whether the event loop of larderd runs. Exit status as above",
     plainly<alive>, 1, kForPods},
    {"started", "", 0, 0, "",
     "ask `larderd --supervise`, at its socket, whether the engine may start. Exit status as above",
     plainly<started>, 1, kForPods},
    {"drop", "NAMESPACE", 1, 1, "drop which namespace? `larderctl status` lists them",
     "drop all chunks of a namespace (the id, or a unique prefix of at least 4 digits; status "
     "lists the ids)",
     plainly<drop>},
    {"clear", "", 0, 0, "", "drop all chunks", plainly<clear>},
    {"prefetch", "NS HASH...", 1, kManyWords, kWhichNamespace,
     "promote chunks into memory; a chunk in memory counts as just used\n"
     "HASH: a block hash in hex; or --hashes FILE",
     plainly<prefetch>},
    {"pin", "NS HASH...", 1, kManyWords, kWhichNamespace,
     "keep chunks in memory until unpin, evict or drop", plainly<pin>},
    {"unpin", "NS HASH...", 1, kManyWords, kWhichNamespace, "allow the eviction of pinned chunks",
     plainly<unpin>},
    {"evict", "NS HASH...", 1, kManyWords, kWhichNamespace,
     "evict chunks from memory, pinned or not", plainly<evict>},
    {"import-lmcache", "[FILE]", 0, 1, "",
     "convert LMCache's configuration to Larder's: FILE, or $LMCACHE_CONFIG_FILE, and LMCACHE_* "
     "variables; or the command\n"
     "line of LMCache's server: import-lmcache -- lmcache server --l1-size-gb 20 ...",
     plainly<import_from_lmcache>},
    {"install-payload", "DIR", 1, 1, "install the payload in which folder?",
     "copy the shim's files into DIR, from --from FOLDER or from /payload of the container image",
     plainly<install_payload_command>, 1, kForPods},
    {"init-volumes", "UID:GID DIR...", 2, kManyWords,
     "give which folders to whom? init-volumes UID:GID DIR...",
     "give folders with their content to larderd's user, unless the user has them already: for an "
     "init container on a node",
     plainly<init_volumes_command>, 1, kForPods},
    {"trace", "", 0, 0, "",
     "record the look-ups of engines for `simulate`: block hashes, never tokens; into --output "
     "FILE, for --seconds N (60)",
     plainly<trace>},
    {"simulate", "FILE...", 1, kManyWords, "simulate which trace? simulate FILE...",
     "compute the exact hits of a recorded trace, to choose a memory size: for --sizes 1GiB,2GiB "
     "and\n"
     "--policies lru,fifo,s3-fifo,optimal (lru). FILE: from `larderctl trace`, or in Mooncake's "
     "format",
     plainly<simulate>},
    {"backend", "check [URL]", 1, 2, "which command? backend check [URL]",
     "check whether larderd can use a Redis or Valkey: redis://[user@]host[:port][/database], "
     "rediss://, unix:///path, or the\n"
     "configured URL. Exit status 0: yes; 1: with warnings; 2: no",
     check_backend, kExitUnusable},
});

// "  NAME OPERANDS    help", with further lines of the help indented.
std::string help_line(std::string_view head, std::string_view help) {
  std::string text = "  " + base::column(head, kHelpColumn - 3) + " ";
  for (const char c : help) {
    text += c;
    // The help of a command may have several lines. Further lines begin under the first one.
    if (c == '\n') text.append(kHelpColumn, ' ');
  }
  return text + "\n";
}

std::string help_of_commands(bool for_pods) {
  std::string text;
  for (const Command& command : kCommands) {
    // People see these commands as names only (--help), since probes and init containers use them.
    if (command.for_pods != for_pods) continue;
    const std::string head(command.name);
    text += help_line(command.operands.empty() ? head : head + " " + std::string(command.operands),
                      command.help);
  }
  return text;
}

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

Result<const Command*> find_command(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words;
  if (words.empty()) return wrong("which command?");
  for (const Command& command : kCommands) {
    if (command.name != words[0]) continue;
    // The words are checked before a command runs, so no command indexes a word that is missing.
    if (words.size() - 1 < command.least) return wrong(std::string(command.missing));
    if (!arguments.command_line.empty() && command.name != "import-lmcache")
      return wrong("'--' is of import-lmcache: '" + words[0] + "' takes no command line");
    if (words.size() - 1 > command.most)
      return wrong("'" + words[command.most + 1] + "' is too much for '" + words[0] + "'");
    return &command;
  }
  return wrong("'" + words[0] + "' is no command");
}

// Usage errors print the short form to standard error.
std::string usage(bool all) {
  std::string text =
      "usage: larderctl [--socket PATH] [--json] COMMAND\n\n" + help_of_commands(false);
  if (all) text += "\nfor probes and init containers of pods:\n" + help_of_commands(true);
  text += "\n";
  text += help_line("--socket PATH",
                    "the admin socket of larderd; default: from $LARDER_CONFIG_FILE and the "
                    "LARDER_* variables, as in larderd");
  text += help_line("--json", "print the JSON answer of larderd");
  text += help_line("--hashes FILE",
                    "prefetch, pin, unpin, evict: read one hash a line; - is standard input");
  text += help_line("--interval SECONDS", "top: time between two screens, default 1");
  text += help_line("--iterations N",
                    "top: print N screens below each other, then end; --once: one screen");
  if (all) text += help_line("--from FOLDER", "install-payload: the folder to copy");
  text += help_line("--sizes LIST",
                    "simulate: memory sizes; default: fractions of the size that keeps all chunks");
  text += help_line("--policies LIST",
                    "simulate: eviction policies, default lru; --output json: print JSON");
  text += help_line("--block-bytes SIZE",
                    "simulate: bytes of a block, for a trace without block sizes");
  text += help_line("--warm-up PERCENT",
                    "simulate: this part of the requests fills the cache, and is not counted; "
                    "default 0");
  text += help_line("--config FILE",
                    "backend check: the configuration file of larderd, instead of a URL");
  text += help_line("--password-file FILE",
                    "backend check URL: the key backend.password_file. Likewise --sentinel-user, "
                    "--sentinel-password-file,\n"
                    "--ca-file, --cert-file, --key-file, --server-name and --prefix");
  text += help_line("--help --all", "this text, with the commands for pods");
  text += help_line("--version", "print the version");
  return text;
}

}  // namespace larder::ctl
