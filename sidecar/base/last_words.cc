#include "sidecar/base/last_words.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <exception>

namespace larder::base {
namespace {

constexpr unsigned kMostSeconds = 1;
constexpr int kAborted = 128 + SIGABRT;

// The handler may read nothing else: a signal handler may use only lock-free or `sig_atomic_t`
// objects.
volatile std::sig_atomic_t status_then = 0;
std::terminate_handler terminate_before = nullptr;

// Standard error may be a pipe that a container runtime has stopped reading, and write() on such a
// pipe never returns. SIGALRM then ends the process, so a supervisor can start the next one.
void end_within_a_second(int exit_status) {
  status_then = exit_status;
  struct sigaction action {};
  action.sa_handler = [](int) { ::_exit(status_then); };
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarms;
  ::sigemptyset(&alarms);
  ::sigaddset(&alarms, SIGALRM);
  // The failing thread may block all signals, as the thread of the log queue does.
  ::pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  ::alarm(kMostSeconds);
}

}  // namespace

void end_with(std::string_view text, int exit_status) {
  end_within_a_second(exit_status);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  // _exit() and not exit(): destructors and atexit() handlers may need the memory or the locks that
  // just failed.
  ::_exit(exit_status);
}

// The old handler prints the text of the exception and calls abort(). The alarm bounds that print
// too.
void bound_terminate() {
  terminate_before = std::set_terminate([] {
    end_within_a_second(kAborted);
    if (terminate_before != nullptr) terminate_before();
    ::_exit(kAborted);
  });
}

}  // namespace larder::base
