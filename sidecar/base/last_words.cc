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

volatile std::sig_atomic_t status_then = 0;
std::terminate_handler terminate_before = nullptr;

void end_within_a_second(int exit_status) {
  status_then = exit_status;
  struct sigaction action {};
  action.sa_handler = [](int) { ::_exit(status_then); };
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarms;
  ::sigemptyset(&alarms);
  ::sigaddset(&alarms, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  ::alarm(kMostSeconds);
}

}  // namespace

void end_with(std::string_view text, int exit_status) {
  end_within_a_second(exit_status);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(exit_status);
}

void bound_terminate() {
  terminate_before = std::set_terminate([] {
    end_within_a_second(kAborted);
    if (terminate_before != nullptr) terminate_before();
    ::_exit(kAborted);
  });
}

}  // namespace larder::base
