#include "sidecar/app/supervise.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "sidecar/base/log_drain.h"
#include "sidecar/ctl/admin_client.h"
#include "sidecar/http/endpoint.h"
#include "sidecar/http/listener.h"
#include "sidecar/supervisor/supervisor.h"

namespace larder {
namespace {

// As the default mode of larderd's own sockets (socket_mode).
constexpr std::uint32_t kSocketMode = 0660;

Result<http::Listener> listen(const std::string& address) {
  if (address.starts_with('/')) return http::listen_unix(address, kSocketMode);
  const Result<config::ListenAddress> parsed = config::parse_listen(address);
  if (!parsed.ok())
    return Status(parsed.status().code(), "--supervise " + address + " " + parsed.status().text());
  return http::listen_tcp(*parsed, "--supervise");
}

// A /healthz that reports a standing loop (kFailedPrecondition) counts as an unanswered question:
// only the supervisor can end such a larderd.
Status is_ready(const std::string& admin_socket) {
  const Status alive = ctl::ask_larderd(admin_socket, ctl::Verb::kGet, "/healthz").status();
  if (alive.code() == Code::kFailedPrecondition) return {Code::kDeadlineExceeded, alive.text()};
  return alive.ok() ? ctl::ask_larderd(admin_socket, ctl::Verb::kGet, "/readyz").status() : alive;
}

}  // namespace

Result<int> supervise(const std::vector<std::string>& addresses, std::vector<std::string> arguments,
                      const std::optional<std::string>& config_file,
                      const config::Environment& environment, const Fd& signals) {
  // The path of this binary, resolved once: argv[0] may be relative, and the working directory may
  // change.
  const std::unique_ptr<char, decltype(&std::free)> program(::realpath("/proc/self/exe", nullptr),
                                                            &std::free);
  if (!program) return Status::from_errno(errno, "/proc/self/exe");
  // The child inherits the eventfd. Prometheus scrapes larderd and not the supervisor, so larderd
  // counts the log lines that the supervisor drops.
  const Fd drops(::eventfd(0, EFD_NONBLOCK));
  if (!drops.valid()) return Status::from_errno(errno, "eventfd");
  arguments.insert(arguments.begin(), program.get());
  arguments.insert(arguments.end(), {"--supervisor-drops", std::to_string(drops.get())});
  // The configuration is loaded at each question: the file may change, and a wrong one keeps
  // larderd from starting.
  const auto ask = [&, reported = std::uint64_t{0}]() mutable -> Status {
    const std::uint64_t dropped = base::dropped_log_lines();
    if (dropped > reported)
      ::eventfd_write(drops.get(), dropped - std::exchange(reported, dropped));
    const Result<config::Config> config = config::load(config_file, environment);
    if (!config.ok()) return config.status();
    return is_ready(config->http.admin_socket);
  };
  std::vector<http::Listener> listeners;
  for (const std::string& address : addresses) {
    Result<http::Listener> listener = listen(address);
    if (!listener.ok()) return listener.status();
    listeners.push_back(*std::move(listener));
  }
  const base::MonotonicClock clock;
  http::Counters counters;
  supervisor::Supervisor supervisor(std::move(arguments), ask, signals, clock);
  std::vector<std::unique_ptr<http::Endpoint>> pages;
  for (http::Listener& listener : listeners)
    pages.push_back(std::make_unique<http::Endpoint>(
        std::move(listener), http::Limits{},
        [&supervisor](const std::string& request) { return supervisor.state().answer(request); },
        clock, counters));
  return supervisor.run();
}

}  // namespace larder
