#include "operator/app/shutdown.h"

#include <unistd.h>

#include "sidecar/base/log.h"
#include "sidecar/base/log_drain.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/base/nap.h"

namespace larder::app {

Shutdown::Shutdown(const Signals& signals, std::stop_source& all,
                   std::chrono::milliseconds most_to_end)
    // A thread of its own: the main thread may hang in the work that should end.
    : thread_([&signals, &all, most_to_end](const std::stop_token& over) {
        if (!signals.await(over)) return;
        base::log_info("stopping");
        all.request_stop();
        // Kubernetes kills the pod after its grace period. The operator ends before that, with its
        // last log lines written.
        base::nap(most_to_end, over);
        if (over.stop_requested()) return;
        base::log_warning("stopping took too long: unfinished work is left to the next leader");
        base::tell_all_left_out();
        base::flush_log(base::LogDrain::kMostToEnd);
        // Status 0: the end was requested, and the kubelet must not count it as a crash (F-249).
        ::_exit(0);  // not exit(): destructors would wait for the work that hangs
      }) {}

}  // namespace larder::app
