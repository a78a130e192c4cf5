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
constexpr int kExitUnusable = 2;  // of `backend check`, also for errors before the check

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
// alive, ready and started print the probe pages of larderd or of the supervisor, for probes that
// can only run a program. A status other than 200 is an error.
Result<std::string> alive(const Arguments& arguments) {
  return ask(arguments, Verb::kGet, "/healthz", nullptr);
}
Result<std::string> ready(const Arguments& arguments) {
  return ask(arguments, Verb::kGet, "/readyz", nullptr);
}
Result<std::string> started(const Arguments& arguments) {
  return ask(arguments, Verb::kGet, "/startupz", nullptr);
}
Result<std::string> drop(const Arguments& arguments) {
  return ask(arguments, Verb::kPost, "/v1/drop?namespace=" + percent_encoded(arguments.words[1]), dropped_report);
}
Result<std::string> clear(const Arguments& arguments) {
  return ask(arguments, Verb::kPost, "/v1/clear", dropped_report);
}

// A verb on the chunks of many hashes, split into requests within the limit.
Result<std::string> act(const Arguments& arguments, const std::string& path, std::string_view done) {
  const Result<std::vector<std::string>> hashes = read_hashes(std::span(arguments.words).subspan(2), arguments.hashes_file);
  if (!hashes.ok()) return hashes.status();
  const Result<std::string> socket = admin_socket(arguments);
  if (!socket.ok()) return socket;
  protocol::ActCounts acted;
  for (std::span<const std::string> rest(*hashes); !rest.empty();) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), protocol::kMaxKeysPerAct));
    rest = rest.subspan(part.size());
    const Result<std::string> answer = ask_larderd(*socket, Verb::kPost, path, hashes_request(arguments.words[1], part));
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

Result<std::string> trace(const Arguments& arguments) {
  const Result<std::string> socket = admin_socket(arguments);
  if (!socket.ok()) return socket;
  return record_trace(*socket, arguments.output, arguments.seconds);
}

// watch() prints each screen itself, so the output of the command is empty.
Result<std::string> top(const Arguments& arguments) {
  if (arguments.json) return Status(Code::kInvalidArgument, "top is for people; `larderctl --json status` prints what it reads");
  const Result<std::string> socket = admin_socket(arguments);
  if (!socket.ok()) return socket;
  if (Status ended = watch(*socket, arguments.interval_seconds, arguments.iterations); !ended.ok()) return ended;
  return std::string();
}

Result<std::vector<LmcacheSetting>> lmcache_settings(const Arguments& arguments) {
  const std::optional<std::string> file = arguments.words.size() > 1 ? std::optional(arguments.words[1]) : std::nullopt;
  if (arguments.command_line.empty()) return read_lmcache_settings(file, config::process_environment());
  if (file) return Status(Code::kInvalidArgument, "import-lmcache takes a file, or the command line of a server, not both");
  return read_lmcache_server(arguments.command_line, config::process_environment());
}

// Prints the configuration to standard output, for redirection into a file. The count of unserved
// settings goes to standard error.
Result<std::string> import_from_lmcache(const Arguments& arguments) {
  const Result<std::vector<LmcacheSetting>> settings = lmcache_settings(arguments);
  if (!settings.ok()) return settings.status();
  if (settings->empty() && arguments.words.size() == 1 && arguments.command_line.empty())
    return Status(Code::kNotFound,
                  "import which configuration? Name LMCache's file, set its LMCACHE_* variables, or write the "
                  "command line of its server behind --");
  const Result<ImportedLmcache> imported = import_lmcache(*settings);
  if (!imported.ok()) return imported.status();
  if (imported->unserved != 0)
    std::fprintf(stderr, "larderctl: %zu of LMCache's settings are not served by Larder; the comments say which and why\n",
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

constexpr std::size_t kManyWords = 1 << 16;
constexpr std::string_view kWhichNamespace = "which namespace? `larderctl status` lists them";

constexpr auto kCommands = std::to_array<Command>({
    {"status", "", 0, 0, "", "is it helping? hits, prefill saved, memory, sessions", plainly<status>},
    {"top", "", 0, 0, "", "the same live: hits, tokens, bytes and evictions a second, memory, sessions; Ctrl-C ends it",
     plainly<top>},
    {"ready", "", 0, 0, "", "does larderd serve engines? Ends with 0 or 1: for a probe", plainly<ready>, 1, kForPods},
    {"alive", "", 0, 0, "", "does larderd's loop run? The same", plainly<alive>, 1, kForPods},
    {"started", "", 0, 0, "", "may the engine start? Of `larderd --supervise`, with its socket. The same", plainly<started>, 1,
     kForPods},
    {"drop", "NAMESPACE", 1, 1, "drop which namespace? `larderctl status` lists them",
     "drop what a namespace holds (id or a unique prefix of it, at least 4 digits; status lists them)", plainly<drop>},
    {"clear", "", 0, 0, "", "drop everything", plainly<clear>},
    {"prefetch", "NS HASH...", 1, kManyWords, kWhichNamespace,
     "bring chunks into memory; what is there counts as just used\nHASH: a block hash in hex; or --hashes FILE",
     plainly<prefetch>},
    {"pin", "NS HASH...", 1, kManyWords, kWhichNamespace, "keep chunks in memory until they are unpinned, evicted or dropped",
     plainly<pin>},
    {"unpin", "NS HASH...", 1, kManyWords, kWhichNamespace, "let them go like any other", plainly<unpin>},
    {"evict", "NS HASH...", 1, kManyWords, kWhichNamespace, "take chunks out of memory, pinned or not", plainly<evict>},
    {"import-lmcache", "[FILE]", 0, 1, "",
     "print the Larder configuration of an LMCache one: FILE, or $LMCACHE_CONFIG_FILE, and LMCACHE_* variables; or of its\n"
     "server: import-lmcache -- lmcache server --l1-size-gb 20 ...",
     plainly<import_from_lmcache>},
    {"install-payload", "DIR", 1, 1, "install the payload in which folder?",
     "copy the shim's files (of --from FOLDER, else /payload, where the container image has them) into DIR",
     plainly<install_payload_command>, 1, kForPods},
    {"init-volumes", "UID:GID DIR...", 2, kManyWords, "give which folders to whom? init-volumes UID:GID DIR...",
     "give folders, and all in them, to larderd's user, where they are not yet: of an init container on a node",
     plainly<init_volumes_command>, 1, kForPods},
    {"trace", "", 0, 0, "",
     "record what engines ask for, for `simulate`: hashes of blocks, never tokens; to --output FILE, for --seconds N (60)",
     plainly<trace>},
    {"simulate", "FILE...", 1, kManyWords, "simulate which trace? simulate FILE...",
     "how much memory should I buy? What a recorded trace finds in memories of --sizes 1GiB,2GiB under\n"
     "--policies lru,fifo,s3-fifo,optimal (lru), exactly. FILE: of `larderctl trace`, or in Mooncake's format",
     plainly<simulate>},
    {"backend", "check [URL]", 1, 2, "backend what? backend check [URL]",
     "can larderd use this Redis or Valkey? redis://[user@]host[:port][/database], rediss://, unix:///path; without a URL the\n"
     "configured one. Ends with 0: yes; 1: with warnings; 2: no",
     check_backend, kExitUnusable},
});

Status wrong(const std::string& why) {
  return {Code::kInvalidArgument, why};
}

// "  NAME OPERANDS    help", with further lines of the help indented.
std::string help_line(std::string_view head, std::string_view help) {
  std::string text = "  " + base::column(head, kHelpColumn - 3) + " ";
  for (const char c : help) {
    text += c;
    if (c == '\n') text.append(kHelpColumn, ' ');
  }
  return text + "\n";
}

std::string help_of_commands(bool for_pods) {
  std::string text;
  for (const Command& command : kCommands) {
    if (command.for_pods != for_pods) continue;
    const std::string head(command.name);
    text += help_line(command.operands.empty() ? head : head + " " + std::string(command.operands), command.help);
  }
  return text;
}

std::string names_for_pods() {
  std::string names;
  for (const Command& command : kCommands)
    if (command.for_pods) names += (names.empty() ? "" : ", ") + std::string(command.name);
  return names + "\n";
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
    if (words.size() - 1 < command.least) return wrong(std::string(command.missing));
    if (!arguments.command_line.empty() && command.name != "import-lmcache")
      return wrong("'--' is of import-lmcache: '" + words[0] + "' takes no command line");
    if (words.size() - 1 > command.most) return wrong("'" + words[command.most + 1] + "' is too much for '" + words[0] + "'");
    return &command;
  }
  return wrong("'" + words[0] + "' is no command");
}

std::string usage(bool all) {
  std::string text = "usage: larderctl [--socket PATH] [--json] COMMAND\n\n" + help_of_commands(false);
  text += all ? "\nfor probes and init containers of pods:\n" + help_of_commands(true) : "\n  for pods: " + names_for_pods();
  text += "\n";
  text += help_line("--socket PATH",
                    "larderd's admin socket; else $LARDER_CONFIG_FILE and LARDER_* variables say, as they do to larderd");
  text += help_line("--json", "larderd's answer as it is");
  text += help_line("--hashes FILE", "of prefetch, pin, unpin, evict: one hash a line; - is standard input");
  text += help_line("--interval SECONDS", "of top: between two screens, default 1");
  text += help_line("--iterations N", "of top: print N screens one after the other and end; --once: one");
  if (all) text += help_line("--from FOLDER", "of install-payload: what is copied");
  text += help_line("--sizes LIST", "of simulate: of the memory; without it, parts of what keeping all would take");
  text += help_line("--policies LIST", "of simulate, default lru; --output json: for programs");
  text += help_line("--block-bytes SIZE", "of simulate: memory of a block, where the trace does not tell");
  text += help_line("--config FILE", "of backend check: larderd's configuration, in place of a URL");
  text += help_line("--password-file FILE",
                    "of backend check URL, as are --sentinel-user, --sentinel-password-file, --ca-file,\n"
                    "--cert-file, --key-file, --server-name and --prefix: what backend.* has beside the URL");
  text += help_line("--help --all", "this text with the commands for pods");
  text += help_line("--version", "print the version");
  return text;
}

}  // namespace larder::ctl
