#include "sidecar/supervisor/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "sidecar/base/log_throttle.h"
#include "sidecar/supervisor/memory_kills.h"

namespace larder::supervisor {
namespace {

std::string how_it_ended(int raw) {
  if (!WIFSIGNALED(raw))
    return "larderd ended with exit status " + std::to_string(WEXITSTATUS(raw));
  return std::string("larderd was ended by SIG") + ::sigabbrev_np(WTERMSIG(raw));
}

}  // namespace

Supervisor::Supervisor(std::vector<std::string> command, Ask ask, const Fd& signals,
                       const base::Clock& clock, const SupervisorTimes& times)
    : command_(std::move(command)),
      ask_(std::move(ask)),
      signals_(signals),
      clock_(clock),
      times_(times),
      state_(clock, times.start_grace_ms),
      pause_ms_(times.least_pause_ms) {}

int Supervisor::run() {
  for (;;) {
    if (!run_once()) return stop();
    if (!pause()) return stop();
  }
}

// One run of larderd. False: this process was asked to stop.
bool Supervisor::run_once() {
  // The counter is of the whole container and only grows: a difference over one run tells of this
  // larderd.
  const std::uint64_t memory_kills_before = memory_kills();
  Result<std::unique_ptr<ChildProcess>> program = ChildProcess::start(command_);
  if (!program.ok()) {
    state_.down(program.status().text());
    base::log_refusal("supervisor", program.status().text(), base::LogLevel::kError,
                      "supervisor: " + program.status().text());
    return true;
  }
  program_ = std::move(*program);
  ready_since_ms_ = unanswered_ = 0;
  state_.started();
  if (watch() == Next::kStop) return false;
  const int raw = program_->wait();
  note_end(raw, memory_kills_before);
  // Only a run that was of use resets the pause. A larderd that dies right after its start is run
  // ever more rarely.
  if (ready_since_ms_ != 0 && clock_.now_ms() - ready_since_ms_ >= times_.steady_ms)
    pause_ms_ = times_.least_pause_ms;
  program_.reset();
  return true;
}

Supervisor::Next Supervisor::watch() {
  for (;;) {
    if (const Next next = wait(ready_since_ms_ == 0 ? times_.look_ms : times_.ask_ms);
        next != Next::kGoOn)
      return next;
    if (const Next next = look(); next != Next::kGoOn) return next;
    base::tell_left_out();
  }
}

// Asks whether larderd is ready. Unanswered questions count only after larderd was ready once: a
// start may read a large disk.
Supervisor::Next Supervisor::look() {
  const Status status = ask_();
  const bool was_ready = ready_since_ms_ != 0;
  // Only a time-out counts. A refusal at once is an answer: the loop of larderd works.
  unanswered_ = was_ready && status.code() == Code::kDeadlineExceeded ? unanswered_ + 1 : 0;
  if (status.ok()) {
    if (!was_ready) ready_since_ms_ = clock_.now_ms();
    state_.ready();
  } else if (was_ready) {
    state_.down(status.text());
  }
  if (unanswered_ < times_.unanswered) return Next::kGoOn;
  base::log_error("supervisor: larderd hangs: " + status.text() +
                  ". The supervisor kills and restarts larderd");
  program_->signal(SIGKILL);
  return Next::kRunAgain;
}

// Waits for `ms` at most. SIGHUP is passed on to larderd at once.
Supervisor::Next Supervisor::wait(unsigned ms) {
  const std::uint64_t end = clock_.now_ms() + ms;
  std::array<pollfd, 2> polled{
      {{signals_.get(), POLLIN, 0}, {program_ ? program_->ended().get() : -1, POLLIN, 0}}};
  for (std::uint64_t now = clock_.now_ms(); now < end; now = clock_.now_ms()) {
    // A signal of another kind ends poll() early. The loop waits for the rest of the time.
    if (::poll(polled.data(), polled.size(), static_cast<int>(end - now)) <= 0) continue;
    signalfd_siginfo signal{};
    if ((polled[0].revents & POLLIN) != 0 &&
        ::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
      if (signal.ssi_signo != SIGHUP) return Next::kStop;
      if (program_) program_->signal(SIGHUP);
    }
    if ((polled[1].revents & POLLIN) != 0) return Next::kRunAgain;
  }
  return Next::kGoOn;
}

void Supervisor::note_end(int raw, std::uint64_t memory_kills_before) {
  const bool out_of_memory =
      WIFSIGNALED(raw) && WTERMSIG(raw) == SIGKILL && memory_kills() > memory_kills_before;
  std::string why = how_it_ended(raw);
  if (out_of_memory) why += ", by the kernel: the container's limit of memory is too low";
  if (const std::string words = program_->last_words(); !words.empty()) why += ": " + words;
  state_.down(why, out_of_memory);
  base::log_refusal("supervisor", why, base::LogLevel::kError, "supervisor: " + why);
}

// False: this process was asked to stop.
bool Supervisor::pause() {
  const unsigned ms = pause_ms_;
  pause_ms_ = std::min(pause_ms_ * 2, times_.most_pause_ms);
  base::log_refusal("supervisor", "runs", base::LogLevel::kInfo,
                    "supervisor: larderd is run again in " + std::to_string(ms) + " ms");
  return wait(ms) != Next::kStop;
}

int Supervisor::stop() {
  if (!program_) return 0;
  program_->signal(SIGTERM);
  pollfd ended{program_->ended().get(), POLLIN, 0};
  const std::uint64_t end = clock_.now_ms() + times_.stop_ms;
  for (std::uint64_t now = clock_.now_ms(); now < end; now = clock_.now_ms())
    if (::poll(&ended, 1, static_cast<int>(end - now)) > 0) break;
  program_->signal(SIGKILL);  // without effect on a larderd that has ended
  const int raw = program_->wait();
  return WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
}

}  // namespace larder::supervisor
