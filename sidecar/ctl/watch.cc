#include "sidecar/ctl/watch.h"

#include <chrono>
#include <optional>
#include <thread>

#include "sidecar/ctl/admin_client.h"
#include "sidecar/ctl/snapshot.h"
#include "sidecar/ctl/terminal.h"
#include "sidecar/ctl/top.h"

namespace larder::ctl {
namespace {

Result<Snapshot> look(const std::string& admin_socket) {
  const Result<std::string> answer = ask_larderd(admin_socket, Verb::kGet, "/v1/status");
  if (!answer.ok()) return answer.status();
  return read_snapshot(*answer);
}

}  // namespace

Status watch(const std::string& admin_socket, double interval_seconds, std::uint64_t iterations) {
  const auto interval = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(interval_seconds));
  // With a number of screens the output is for a file or a pipe: plain text, one screen below the
  // other.
  Terminal terminal(iterations == 0);
  std::optional<Snapshot> before;
  Status last;
  for (std::uint64_t shown = 0;; ++shown) {
    // The first answer is only the start of the first interval, so that every printed screen has
    // rates.
    const bool baseline = iterations != 0 && shown == 0;
    const Result<Snapshot> now = look(admin_socket);
    last = now.status();
    if (!baseline)
      terminal.show(now.ok() ? top_screen(*now, before) : waiting_screen(last.text(), before));
    // While larderd is away the last snapshot stays. Rates come back with the second answer after a
    // restart.
    if (now.ok()) before = *now;
    if (iterations != 0 && shown == iterations) return last;
    std::this_thread::sleep_for(interval);
  }
}

}  // namespace larder::ctl
