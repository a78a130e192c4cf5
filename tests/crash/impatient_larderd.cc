// impatient_larderd --config FILE: a larderd that asks about grants older than 100 ms. With the
// usual age, a test that kills an engine at ASK_GRANTS and STILL_WRITING would wait half a minute
// for each death. Runs until killed.
#include <csignal>
#include <cstdio>

#include "sidecar/base/clock.h"
#include "sidecar/base/log.h"
#include "sidecar/config/loader.h"
#include "sidecar/loop/sidecar.h"
#include "sidecar/pages/server.h"

namespace larder {
namespace {

constexpr std::uint64_t kGrantAgeMs = 100;  // a tick

Status serve(const std::string& file) {
  std::signal(SIGPIPE, SIG_IGN);
  const Result<config::Config> config = config::load(file, {});
  if (!config.ok()) return config.status();
  base::set_log_level(base::LogLevel::kError);
  const base::MonotonicClock clock;
  Result<std::unique_ptr<loop::Sidecar>> sidecar =
      loop::Sidecar::start(*config, clock, kGrantAgeMs);
  if (!sidecar.ok()) return sidecar.status();
  const Result<std::unique_ptr<pages::HttpServer>> http =
      pages::HttpServer::start(*config, **sidecar);
  if (!http.ok()) return http.status();
  return (*sidecar)->run();
}

}  // namespace
}  // namespace larder

int main(int argc, char** argv) {
  const larder::Status status = larder::serve(argc == 3 ? argv[2] : "");
  std::fprintf(stderr, "impatient_larderd: %s\n", status.text().c_str());
  return 1;
}
