// Arms that are programs of their own: redis-benchmark, and a Python with redis-py and LMCache
// (remote_rivals.py).
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "shim/base/fd.h"
#include "tests/bench/remote_arms.h"

namespace larder::bench {
namespace {

double children_cpu() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// One connection, one command at a time: with the default of 50 connections each holds a value,
// here up to 32 MiB. redis-benchmark stores under keys at random, of a billion, loads a present
// one, and looks at no byte.
class RedisBenchmarkArm final : public RemoteArm {
 public:
  explicit RedisBenchmarkArm(const Place& place)
      : RemoteArm("redis-benchmark -c 1"), place_(place) {}
  Cost set(const Chunks& chunks, std::uint64_t) override {
    return run("set", chunks, chunks.count(), "-r 1000000000");
  }
  Cost get(const Chunks& chunks, std::uint64_t) override {
    static_cast<void>(run("set", chunks, 1, ""));
    return run("get", chunks, chunks.count(), "");
  }

 private:
  Cost run(const std::string& test, const Chunks& chunks, std::size_t times,
           const std::string& keys) const {
    std::ostringstream command;
    command << "redis-benchmark -h 127.0.0.1 -p " << place_.port << " -c 1 -t " << test << " -n "
            << times << " -d " << chunks.payload() << " " << keys << " --csv 2>/dev/null";
    Stopwatch watch(place_.pid);
    const double cpu = children_cpu();
    watch.start();
    std::FILE* const pipe = ::popen(command.str().c_str(), "r");
    must(pipe != nullptr, "redis-benchmark: not started");
    std::array<char, 512> line{};
    double per_s = 0;
    while (std::fgets(line.data(), line.size(), pipe) != nullptr)
      std::sscanf(line.data(), test == "set" ? "\"SET\",\"%lf\"" : "\"GET\",\"%lf\"", &per_s);
    must(::pclose(pipe) == 0 && per_s > 0, "redis-benchmark failed");
    watch.stop();
    Cost cost = watch.cost();
    cost.client_cpu = children_cpu() - cpu;
    cost.seconds = static_cast<double>(times) / per_s;  // without its start
    return cost;
  }

  const Place place_;
};

// Lines there, a line back.
class Helper {
 public:
  explicit Helper(const std::vector<std::string>& program) {
    int ends[2];
    must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    end_ = Fd(ends[0]);
    Fd theirs(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(theirs.get(), 0);
      ::dup2(theirs.get(), 1);
      std::vector<char*> words;
      for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      ::execvp(words[0], words.data());
      ::_exit(127);
    }
  }
  ~Helper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  std::string ask(const std::string& line) const {
    const std::string text = line + "\n";
    must(::send(end_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(text.size()),
         "the Python arms ended");
    return read();
  }
  std::string read() const {
    std::string line;
    for (char c = 0; c != '\n'; line += c)
      must(::recv(end_.get(), &c, 1, 0) == 1, "the Python arms ended");
    line.pop_back();
    return line;
  }

 private:
  Fd end_;
  pid_t pid_ = -1;
};

class PythonArm final : public RemoteArm {
 public:
  PythonArm(std::string name, std::string called, const Place& place,
            std::shared_ptr<Helper> helper)
      : RemoteArm(std::move(name)),
        called_(std::move(called)),
        pid_(place.pid),
        helper_(std::move(helper)) {}
  Cost set(const Chunks& chunks, std::uint64_t first) override { return run("set", chunks, first); }
  Cost get(const Chunks& chunks, std::uint64_t first) override { return run("get", chunks, first); }

 private:
  Cost run(const char* operation, const Chunks& chunks, std::uint64_t first) const {
    std::ostringstream line;
    line << called_ << ' ' << operation << ' ' << chunks.payload() << ' ' << chunks.count() << ' '
         << first;
    Stopwatch watch(pid_);
    watch.start();
    const std::string answer = helper_->ask(line.str());
    watch.stop();
    Cost cost = watch.cost();
    must(std::sscanf(answer.c_str(), "%lf %lf", &cost.seconds, &cost.client_cpu) == 2,
         name() + ": " + answer);
    return cost;
  }

  const std::string called_;
  const pid_t pid_;
  const std::shared_ptr<Helper> helper_;  // of several arms
};

}  // namespace

std::unique_ptr<RemoteArm> redis_benchmark_arm(const Place& place) {
  return std::make_unique<RedisBenchmarkArm>(place);
}

std::vector<std::unique_ptr<RemoteArm>> python_arms(const Place& place,
                                                    const std::vector<std::string>& program) {
  std::vector<std::string> words = program;
  words.push_back(std::to_string(place.port));
  const auto helper = std::make_shared<Helper>(words);
  must(helper->read() == "ready", "the Python arms did not start");
  std::vector<std::unique_ptr<RemoteArm>> arms;
  arms.push_back(std::make_unique<PythonArm>("redis-py", "redis-py", place, helper));
  arms.push_back(std::make_unique<PythonArm>("resp, 8 workers", "resp8", place, helper));
  arms.push_back(std::make_unique<PythonArm>("resp, 1 worker", "resp1", place, helper));
  return arms;
}

}  // namespace larder::bench
