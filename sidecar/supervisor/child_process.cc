#include "sidecar/supervisor/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sidecar/base/log_drain.h"

namespace larder::supervisor {
namespace {

constexpr int kNotStarted = 127;
constexpr int kLookMs = 1000;

// Runs in the child between fork and exec. Only async-signal-safe calls, because the parent has
// threads.
[[noreturn]] void become(char* const* arguments, int output, pid_t parent) {
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  // larderd dies with the supervisor: a second larderd on the same socket and memory would disturb
  // the next one.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before prctl(). Then no signal comes, and the child ends itself.
  if (::getppid() == parent && ::dup2(output, STDERR_FILENO) >= 0) ::execv(arguments[0], arguments);
  const char* why = ::strerrordesc_np(errno);
  for (const char* part : {"cannot run ", static_cast<const char*>(arguments[0]), ": ", why, "\n"})
    [[maybe_unused]] const auto written = ::write(output, part, ::strlen(part));
  ::_exit(kNotStarted);
}

// Writes whole lines, so that lines of larderd and of the supervisor never mix. A line longer than
// kMostBytes is written in pieces.
class WholeLines {
 public:
  ~WholeLines() {
    if (!line_.empty()) base::write_line(line_ + '\n');
  }
  void take(std::string_view piece) {
    while (!piece.empty()) {
      // A line is written in one call, so that lines of two processes do not mix in the container's
      // log.
      const std::size_t end = std::min(piece.find('\n'), piece.size() - 1) + 1;
      line_ += piece.substr(0, end);
      piece.remove_prefix(end);
      if (line_.back() == '\n' || line_.size() >= kMostBytes)
        base::write_line(std::exchange(line_, ""));
    }
  }

 private:
  static constexpr std::size_t kMostBytes = 16 * 1024;
  std::string line_;
};

// Passes the output on until every process has closed the pipe. After a stop request, until the
// pipe is silent for kLookMs: a process that inherited the pipe from larderd may live on.
void pass_on(const std::stop_token& stop, const Fd& output, LastLine& last) {
  std::array<char, 4096> buffer{};
  WholeLines lines;
  for (;;) {
    pollfd polled{output.get(), POLLIN, 0};
    if (::poll(&polled, 1, kLookMs) <= 0) {
      if (stop.stop_requested()) return;
      continue;
    }
    const ssize_t got = ::read(output.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const std::string_view piece(buffer.data(), static_cast<std::size_t>(got));
    last.take(piece);
    lines.take(piece);
  }
}

}  // namespace

void LastLine::take(std::string_view piece) {
  for (const char c : piece) {
    if (c == '\n') {
      ended_ = true;
      continue;
    }
    // The next line begins with its first byte, not with the end of the last line: the last line
    // stays readable after its "\n".
    if (ended_) text_.clear();
    ended_ = false;
    if (text_.size() < kMostBytes) text_ += c;
  }
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return Status::from_errno(errno, "pipe");
  Fd output(pipe[0]), input(pipe[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Status::from_errno(errno, "fork");
  if (pid == 0) become(arguments.data(), input.get(), parent);
  // A descriptor in place of SIGCHLD: poll() waits for signals, the end and a time together.
  Fd ended(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!ended.valid()) {
    const Status status = Status::from_errno(errno, "pidfd_open");
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return status;
  }
  // The child has the only end to write to. Its exit ends the reader.
  input = Fd();
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, std::move(ended), std::move(output)));
}

ChildProcess::ChildProcess(pid_t pid, Fd ended, Fd output)
    : pid_(pid),
      ended_(std::move(ended)),
      passing_on_([this, output = std::move(output)](const std::stop_token& stop) {
        pass_on(stop, output, last_);
      }) {}

ChildProcess::~ChildProcess() {
  signal(SIGKILL);
  wait();
}

void ChildProcess::signal(int number) const {
  if (!status_) ::kill(pid_, number);
}

int ChildProcess::wait() {
  int raw = 0;
  while (!status_) {
    if (::waitpid(pid_, &raw, 0) == pid_)
      status_ = raw;
    else if (errno != EINTR)
      status_ = 0;
  }
  return *status_;
}

std::string ChildProcess::last_words() {
  passing_on_.request_stop();
  if (passing_on_.joinable()) passing_on_.join();
  return last_.text();
}

}  // namespace larder::supervisor
