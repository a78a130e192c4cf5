// larderd: wiring only. Loads the configuration, starts the sidecar and the HTTP server, and turns
// signals into stop().
//
// Exit status: 0 after a signal; kExitConfig for wrong arguments or a wrong configuration;
// kExitFailure for every other failure. One line on standard error gives the reason.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/app/arguments.h"
#include "sidecar/app/config_watch.h"
#include "sidecar/app/supervise.h"
#include "sidecar/base/clock.h"
#include "sidecar/base/last_words.h"
#include "sidecar/base/log.h"
#include "sidecar/base/log_drain.h"
#include "sidecar/base/standard_streams.h"
#include "sidecar/config/loader.h"
#include "sidecar/config/reference.h"
#include "sidecar/loop/sidecar.h"
#include "sidecar/pages/metrics.h"
#include "sidecar/pages/server.h"

namespace larder {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitConfig = 2;
constexpr int kWatchMs = 2000;

// Takes the supervisor's descriptor over, so that a child of this process does not inherit it.
Status adopt_supervisor_drops(const Arguments& arguments) {
  const std::optional<int>& fd = arguments.supervisor_drops;
  if (!fd || (*fd > STDERR_FILENO && ::fcntl(*fd, F_SETFD, FD_CLOEXEC) == 0)) return {};
  return {Code::kInvalidArgument,
          "'--supervisor-drops' is the supervisor's own option: the option needs a descriptor of "
          "the supervisor's"};
}

void print_help() {
  std::printf(
      "usage: larderd [--config FILE] [--watch-config] [--supervise ADDRESS] [--check-config] "
      "[--free-memory]\n"
      "               [--config-reference] [--metrics-reference] [--version] [--help]\n\n"
      "Keeps the KV cache of LLM engines on this machine and shares the cache among the engines.\n"
      "A stopped larderd leaves its memory to the next larderd, which starts warm; --free-memory "
      "frees the memory.\n"
      "Configuration: defaults, then FILE (or $LARDER_CONFIG_FILE), then the environment; a later "
      "source wins.\n"
      "On SIGHUP, and with --watch-config when FILE changes, larderd reads FILE again and applies "
      "the keys that it can change.\n"
      "--supervise, for pods: a parent process runs larderd, restarts a larderd that ends or "
      "hangs, and answers the probes of\n"
      "Kubernetes at ADDRESS (HOST:PORT or the path of a Unix socket; repeatable): /startupz, "
      "/healthz, /readyz.\n\n%s",
      config::reference().c_str());
}

// Blocks SIGINT, SIGTERM and SIGHUP, and returns a descriptor to read the signals from. Threads
// inherit the block; the thread of the log, which starts earlier, blocks all signals itself.
Result<Fd> take_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A closed pipe or socket is an error of write(), and must not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC));
  if (!fd.valid()) return Status::from_errno(errno, "signalfd");
  return fd;
}

// Stops the sidecar on SIGINT and SIGTERM. Reloads the configuration on SIGHUP, and a watched file
// every `watch_ms` if the content changed. Adds the log lines that the supervisor dropped to the
// count of this process. Also returns when `done` becomes readable.
void obey_signals(const Fd& signals, const Fd& done, int supervisor_drops, int watch_ms,
                  ConfigWatch config, loop::Sidecar& sidecar) {
  pollfd polled[] = {
      {signals.get(), POLLIN, 0}, {done.get(), POLLIN, 0}, {supervisor_drops, POLLIN, 0}};
  for (;;) {
    const int ready = ::poll(polled, 3, watch_ms);
    if (ready == 0) config.reload_if_changed();
    if (ready <= 0) continue;
    eventfd_t dropped = 0;
    if ((polled[2].revents & POLLIN) != 0 && ::eventfd_read(supervisor_drops, &dropped) == 0)
      base::note_dropped_lines(dropped);
    if (((polled[0].revents | polled[1].revents) & POLLIN) == 0) continue;
    signalfd_siginfo signal{};
    if ((polled[0].revents & POLLIN) == 0 ||
        ::read(signals.get(), &signal, sizeof(signal)) != sizeof(signal))
      return;
    if (signal.ssi_signo == SIGHUP) {
      config.reload();
      continue;
    }
    // SIGTERM leaves the memory to the next start (memory.keep_on_exit). `larderd --free-memory`
    // frees the memory of a stopped larderd.
    base::log_info(std::string("stopping on ") +
                   (signal.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM"));
    return sidecar.stop();
  }
}

// `content`: the bytes of the configuration file, read before `config` was loaded.
Status serve(const config::Config& config, const std::optional<std::string>& content,
             const Arguments& arguments, const config::Environment& environment) {
  // Signals are blocked before the first thread starts, and every thread inherits the block.
  // larderd therefore needs no signal handler for them.
  const Result<Fd> signals = take_signals();
  if (!signals.ok()) return signals.status();
  const Fd done(::eventfd(0, EFD_CLOEXEC));
  if (!done.valid()) return Status::from_errno(errno, "eventfd");
  const base::MonotonicClock clock;

  Result<std::unique_ptr<loop::Sidecar>> sidecar = loop::Sidecar::start(config, clock);
  if (!sidecar.ok()) return sidecar.status();
  const Result<std::unique_ptr<pages::HttpServer>> http =
      pages::HttpServer::start(config, **sidecar);
  if (!http.ok()) return http.status();

  // A file in a ConfigMap changes by renames of folders, which inotify on the file does not see.
  // Hence a look at the content.
  const int watch_ms = arguments.watch_config ? kWatchMs : -1;
  std::jthread obeying([&] {
    obey_signals(*signals, done, arguments.supervisor_drops.value_or(-1), watch_ms,
                 ConfigWatch(config, arguments.config_file, environment, content, **sidecar),
                 **sidecar);
  });
  // Ends `obeying` on every path. Without `done`, the join after a failed start of another thread
  // would wait for ever.
  struct Done {
    const Fd& done;
    ~Done() { ::eventfd_write(done.get(), 1); }
  } const at_the_end{done};
  return (*sidecar)->run();
}

// Without memory larderd can neither finish nor undo a started step. Arena and index are consistent
// at every instruction, so this end equals a kill: the next larderd starts warm.
[[noreturn]] void end_without_memory() {
  base::end_with("larderd: out of memory; the next one starts with what this one kept\n",
                 kExitFailure);
}

int fail(const Status& status, int exit_status) {
  base::write_line("larderd: " + status.text() + "\n");
  return exit_status;
}

int supervise(const Arguments& arguments, const config::Environment& environment) {
  const Result<Fd> signals = take_signals();
  if (!signals.ok()) return fail(signals.status(), kExitFailure);
  const Result<int> kept = larder::supervise(arguments.supervise, arguments.of_child,
                                             arguments.config_file, environment, *signals);
  return kept.ok() ? *kept : fail(kept.status(), kExitFailure);
}

int run(int argc, char** argv) {
  const Result<Arguments> arguments =
      parse_arguments(std::vector<std::string_view>(argv + 1, argv + argc));
  if (!arguments.ok()) return fail(arguments.status(), kExitConfig);
  if (const Status adopted = adopt_supervisor_drops(*arguments); !adopted.ok())
    return fail(adopted, kExitConfig);
  if (arguments->help) {
    print_help();
    return 0;
  }
  if (arguments->version) {
    std::printf("larderd %s\n", LARDER_VERSION);
    return 0;
  }
  if (arguments->config_reference) {
    std::fputs(config::reference_page().c_str(), stdout);
    return 0;
  }
  if (arguments->metrics_reference) {
    std::fputs(pages::metrics_reference().c_str(), stdout);
    return 0;
  }
  const config::Environment environment = config::process_environment();
  if (!arguments->supervise.empty()) return supervise(*arguments, environment);
  const std::optional<std::string> content =
      ConfigWatch::content(arguments->config_file, environment);
  const Result<config::Config> config = config::load(arguments->config_file, environment);
  if (!config.ok()) return fail(config.status(), kExitConfig);
  for (const std::string& name : config::unknown_variables(environment))
    base::log_warning("environment: " + name +
                      " is no variable of larderd and is ignored (see larderd --help)");
  if (arguments->check_config) {
    std::printf("# valid\n%s", config::to_yaml(*config).c_str());
    return 0;
  }
  base::set_log_level(log_level_of(*config));
  if (const Status status = arguments->free_memory
                                ? loop::Sidecar::free_memory(*config)
                                : serve(*config, content, *arguments, environment);
      !status.ok())
    return fail(status, kExitFailure);
  return 0;
}

// Set before main(), because initialisers of static objects allocate too; those of this file run
// first.
[[maybe_unused]] const std::new_handler before = std::set_new_handler(end_without_memory);

}  // namespace
}  // namespace larder

int main(int argc, char** argv) {
  larder::base::open_standard_streams();
  larder::base::bound_terminate();
  std::signal(
      SIGXFSZ,
      SIG_IGN);  // a file over `ulimit -f` is an error with words, and not the end of larderd
  try {
    const larder::base::LogDrain log;
    return larder::base::after_output(larder::run(argc, argv));
  } catch (const std::system_error& error) {
    larder::base::write_line(std::string("larderd: a thread could not be started: ") +
                             error.what() + "\n");
    larder::base::flush_log(larder::base::LogDrain::kMostToEnd);
    return larder::kExitFailure;
  }
}
