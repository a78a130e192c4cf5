#include "operator/kubectl/kubectl.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <thread>

#include "shim/base/fd.h"
#include "sidecar/base/file_write.h"
#include "sidecar/base/text.h"

extern char** environ;

namespace larder::kubectl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A refusal of an admission policy may be long; the end of the text has the message.
constexpr std::size_t kMostErrorBytes = 64u << 10, kMostErrorShown = 600;
// After this time, messages of a running kubectl go to the user, e.g. a login prompt of a plug-in.
constexpr milliseconds kQuiet{2000};

struct Pipe {
  Fd read, write;
};

// O_CLOEXEC: kubectl gets its streams by dup2 and inherits no other end. An inherited write end
// would keep a pipe open after its kubectl ended.
std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// A file with the text, positioned at its start; no file for an empty text.
// A file instead of a pipe for standard input: writing a large pod into a pipe could block both
// sides.
Result<Fd> file_of(const std::string& text) {
  if (text.empty()) return Fd();
  Fd file(::memfd_create("larder-kubectl", MFD_CLOEXEC));
  if (!file.valid()) return Status::from_errno(errno, "a file for kubectl");
  Status written =
      base::write_all_at(file.get(), std::as_bytes(std::span(text)), 0, "write a file for kubectl");
  if (!written.ok()) return written;
  return file;
}

// Starts the program, found in PATH, with `in`, `out` and `err` as standard streams; -1: inherited.
// posix_spawn and no shell: names of the cluster cannot become commands.
Result<pid_t> spawn(const Words& words, int in, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (in >= 0) ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return Status(Code::kUnavailable,
                "cannot run " + words[0] + ": " + std::generic_category().message(error) +
                    ". `kubectl larder` asks the cluster through kubectl: put kubectl into PATH");
}

// 0 instead of a negative number, which poll() takes for "wait for ever".
milliseconds left_until(Clock::time_point end) {
  return std::max(std::chrono::duration_cast<milliseconds>(end - Clock::now()), milliseconds(0));
}

// False: the process still runs.
// A pidfd (Linux 5.3) becomes readable at the end of the process, so a wait has a deadline.
// waitpid() has none.
bool ends(pid_t pid, Clock::time_point deadline) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd end{process.get(), POLLIN, 0};
  return ::poll(&end, 1, static_cast<int>(left_until(deadline).count())) > 0;
}

// Whether an ended or killed process succeeded.
// Each child is reaped, also a killed one: a live screen starts thousands of kubectls.
bool reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Reads the available bytes. False: end of the stream, or more than `most`.
// EINTR and EAGAIN keep the stream open.
bool read_some(int fd, std::string& text, std::size_t most) {
  std::array<char, 16384> buffer{};
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  text.append(buffer.data(), static_cast<std::size_t>(got));
  return got != 0 && text.size() <= most;
}

// Collects the output of a child until both streams are closed.
struct Said {
  std::string out, err;
  bool late = false, too_long = false;
};

// Both streams are read together: a child that fills one pipe would wait for ever while the plug-in
// reads the other.
class Listening {
 public:
  Listening(int out, int err, milliseconds deadline)
      : out_(out), err_(err), begin_(Clock::now()), deadline_(begin_ + deadline) {}

  // Waits for the end of both streams, then of the process.
  Said until_end(std::size_t most_bytes, pid_t pid) {
    while (out_ >= 0 || err_ >= 0) {
      const milliseconds left = left_until(deadline_);
      if (left.count() == 0) {
        said_.late = true;
        break;
      }
      std::array<pollfd, 2> wait{pollfd{out_, POLLIN, 0},
                                 pollfd{err_, POLLIN, 0}};  // a negative one is left out
      ::poll(wait.data(), wait.size(), static_cast<int>(std::min(left, kQuiet).count()));
      if (wait[0].revents != 0 && !read_some(out_, said_.out, most_bytes)) out_ = -1;
      if (said_.out.size() > most_bytes) {
        said_.too_long = true;
        break;
      }
      // Beyond the bound messages are read and dropped: kubectl must not wait for a full pipe.
      if (wait[1].revents != 0 && !read_some(err_, said_.err, said_.err.max_size())) err_ = -1;
      said_.err.resize(std::min(said_.err.size(), kMostErrorBytes));
      show_the_waiting();
    }
    if (!said_.too_long && !said_.late) said_.late = !ends(pid, deadline_);
    return std::move(said_);
  }

 private:
  // After two quiet seconds the user sees kubectl's own messages: a credential plug-in may ask for
  // a login.
  void show_the_waiting() {
    if (Clock::now() - begin_ < kQuiet || shown_ == said_.err.size()) return;
    const std::string fresh = said_.err.substr(shown_);
    shown_ = said_.err.size();
    std::ignore = ::write(STDERR_FILENO, fresh.data(), fresh.size());
  }

  int out_, err_;
  const Clock::time_point begin_, deadline_;
  std::size_t shown_ = 0;
  Said said_;
};

// A log line of kubectl's library, "E1122 19:23:03.023237   24547 memcache.go:265] ...". kubectl
// repeats the message in its own words.
bool is_log_line(std::string_view line) {
  return line.size() > 5 && std::string_view("IWEF").find(line.front()) != std::string_view::npos &&
         std::ranges::all_of(line.substr(1, 4), [](char c) { return c >= '0' && c <= '9'; }) &&
         line[5] == ' ';
}

// The last lines of the output on one line, since kubectl's message follows the warnings.
std::string sentence_of(const std::string& error) {
  std::string own, all;
  for (std::size_t at = 0; at < error.size();) {
    const std::size_t end = std::min(error.find('\n', at), error.size());
    const std::string line = error.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    all += (all.empty() ? "" : "; ") + line;
    if (!is_log_line(line)) own += (own.empty() ? "" : "; ") + line;
  }
  const std::string& text = own.empty() ? all : own;
  return base::printable(
      text.size() > kMostErrorShown ? "..." + text.substr(text.size() - kMostErrorShown) : text);
}

// kubectl gives one exit status for all failures. The words in parentheses are reasons of the API
// server and do not depend on the language.
Status refusal(const std::string& error) {
  const auto says = [&](const char* words) { return error.find(words) != std::string::npos; };
  const std::string text = error.empty() ? "kubectl failed without a message" : sentence_of(error);
  if (says("(NotFound)") || says("doesn't have a resource type") ||
      says("could not find the requested resource"))
    return {Code::kNotFound, text};
  if (says("(Forbidden)") || says("(Unauthorized)") || says("must be logged in"))
    return {Code::kPermissionDenied, text};
  // "nable" matches "Unable" and "unable".
  if (says("nable to connect to the server") || says("connection to the server") ||
      says("(ServiceUnavailable)"))
    return {Code::kUnavailable, text};
  return {Code::kFailedPrecondition, text};
}

// The results of `work` for 0 to count - 1, kAtOnce at once.
// The calling thread works, too. `answers` has its full size from the start: each thread writes its
// own elements.
template <typename Answer, typename Work>
std::vector<Answer> at_once(std::size_t count, const Work& work) {
  std::vector<Answer> answers(count, Status(Code::kInternal, "not asked"));
  std::atomic<std::size_t> next{0};
  const auto go = [&] {
    for (std::size_t i = next++; i < count; i = next++) answers[i] = work(i);
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(Kubectl::kAtOnce, count); ++i) threads.emplace_back(go);
  go();
  threads.clear();  // joins them
  return answers;
}

std::string no_answer(const Words& words, milliseconds deadline) {
  return "kubectl " + words.front() + " gave no answer in " +
         base::seconds_text(static_cast<double>(deadline.count()) / 1000);
}

}  // namespace

// Invariant: the plug-in changes no object. Callers use get, logs, config view, a create in a dry
// run (trial.cc), and an exec of larderctl (trace).
Words Kubectl::command(const Words& words) const {
  Words all{program_};
  all.insert(all.end(), options_.begin(), options_.end());
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Result<Kubectl::Heard> Kubectl::hear(const Call& call, std::size_t most_bytes) const {
  const Words& words = call.words;
  std::optional<Pipe> out = make_pipe(), err = make_pipe();
  if (!out || !err) return Status::from_errno(errno, "a pipe to kubectl");
  Result<Fd> input = file_of(call.input);
  if (!input.ok()) return input.status();
  const Result<pid_t> pid = spawn(command(words), input->get(), out->write.get(), err->write.get());
  if (!pid.ok()) return pid.status();
  // The plug-in's copies of the write ends must be closed: otherwise the streams never end.
  out->write.reset();
  err->write.reset();
  Said said = Listening(out->read.get(), err->read.get(), deadline_).until_end(most_bytes, *pid);
  if (said.late || said.too_long) ::kill(*pid, SIGKILL);
  const bool well = reap(*pid);
  if (said.too_long)
    return Status(Code::kOutOfRange, "kubectl " + words.front() + " answers with more than " +
                                         base::bytes_text(most_bytes));
  if (said.late)
    return Status(
        Code::kDeadlineExceeded,
        no_answer(words, deadline_) + (said.err.empty() ? "" : ": " + sentence_of(said.err)));
  const Status ended = well ? Status() : refusal(said.err);
  return Heard{std::move(said.out), std::move(said.err), ended};
}

Result<std::string> Kubectl::ask(const Words& words, std::size_t most_bytes) const {
  Result<Heard> heard = hear({words}, most_bytes);
  if (!heard.ok()) return heard.status();
  if (!heard->ended.ok()) return heard->ended;
  return std::move(heard->out);
}

// For trace: the output goes to the user directly, in unbounded length.
Status Kubectl::show(const Words& words, milliseconds deadline) const {
  const Clock::time_point end = Clock::now() + deadline;
  const Result<pid_t> pid = spawn(command(words), -1, STDOUT_FILENO, STDERR_FILENO);
  if (!pid.ok()) return pid.status();
  const bool late = !ends(*pid, end);
  if (late) ::kill(*pid, SIGKILL);
  const bool well = reap(*pid);
  if (late) return {Code::kDeadlineExceeded, no_answer(words, deadline)};
  if (!well) return {Code::kFailedPrecondition, "kubectl " + words.front() + " failed"};
  return {};
}

std::vector<Result<Kubectl::Heard>> Kubectl::hear_all(const std::vector<Call>& calls,
                                                      std::size_t most_bytes) const {
  return at_once<Result<Heard>>(calls.size(),
                                [&](std::size_t i) { return hear(calls[i], most_bytes); });
}

std::vector<Result<std::string>> Kubectl::ask_all(const std::vector<Words>& calls,
                                                  std::size_t most_bytes) const {
  return at_once<Result<std::string>>(calls.size(),
                                      [&](std::size_t i) { return ask(calls[i], most_bytes); });
}

}  // namespace larder::kubectl
