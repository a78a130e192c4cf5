#include "tests/component/kube/control_plane.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace larder::kube_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScript = REPOSITORY_ROOT "/tests/component/kube/apiserver.sh";

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// The value behind `flag` in the arguments.
std::string flag_of(const std::vector<std::string>& command, const std::string& flag) {
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i].starts_with(flag + "=")) return command[i].substr(flag.size() + 1);
    if (command[i] == flag && i + 1 < command.size()) return command[i + 1];
  }
  return "";
}

// Until the process has closed all open files, of all its threads: its first thread may be a zombie
// while another still holds a port.
void await_end(int process) {
  constexpr int kDeadlineMs = 10'000;
  pollfd ended{.fd = process, .events = POLLIN, .revents = 0};
  ::poll(&ended, 1, kDeadlineMs);
  ::close(process);
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::string& output) : pid_(::fork()) {
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is ended from outside leaves no process
  const int log = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

Child::~Child() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::kill(pid_, SIGCONT);
  ::waitpid(pid_, nullptr, 0);
}

void Child::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

int Child::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::unique_ptr<ControlPlane> ControlPlane::start() {
  return start_by({kScript, "up"});
}

std::unique_ptr<ControlPlane> ControlPlane::start_audited() {
  return start_by({"/usr/bin/env", "AUDIT=1", kScript, "up"});
}

std::unique_ptr<ControlPlane> ControlPlane::start_by(std::vector<std::string> command) {
  std::string folder = (fs::temp_directory_path() / "larder_kube.XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return nullptr;
  const std::string log = folder + ".log";
  command.push_back(folder);
  if (Child(command, log).wait() != 0) {
    const std::string why = text_of(log);
    fs::remove_all(folder);
    fs::remove(log);
    if (why.find("no kube-apiserver here") == std::string::npos)
      throw std::runtime_error("no control plane: " + why);
    return nullptr;
  }
  return std::unique_ptr<ControlPlane>(new ControlPlane(folder));
}

ControlPlane::~ControlPlane() {
  restarted_.reset();
  Child({kScript, "down", folder_}, folder_ + ".log").wait();
  fs::remove(folder_ + ".log");
}

std::string ControlPlane::kubeconfig_of(const std::string& user) const {
  const std::string log = folder_ + ".log";
  if (Child({kScript, "user", folder_, user}, log).wait() != 0)
    throw std::runtime_error("no user " + user + ": " + text_of(log));
  return folder_ + "/" + user + ".kubeconfig";
}

pid_t ControlPlane::pid_of(const std::string& name) const {
  return static_cast<pid_t>(std::atoi(text_of(folder_ + "/" + name + ".pid").c_str()));
}

std::vector<std::string> ControlPlane::command_of(const std::string& name) const {
  std::istringstream stream(text_of("/proc/" + std::to_string(pid_of(name)) + "/cmdline"));
  std::vector<std::string> command;
  for (std::string word; std::getline(stream, word, '\0');) command.push_back(word);
  return command;
}

void ControlPlane::restart_apiserver() {
  const std::vector<std::string> command = command_of("apiserver");
  const pid_t pid = pid_of("apiserver");
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  ::kill(pid, SIGKILL);
  await_end(process);
  restarted_.reset();  // for a child of ours, from an earlier time
  restarted_ = std::make_unique<Child>(command, folder_ + "/apiserver.log");
  std::ofstream(folder_ + "/apiserver.pid") << restarted_->pid() << "\n";  // for apiserver.sh down
}

void ControlPlane::compact() {
  const std::string etcd = flag_of(command_of("etcd"), "--advertise-client-urls");
  k8s::Credentials where;
  where.server = etcd;
  k8s::CredentialSource source(where);
  const base::MonotonicClock clock;
  k8s::CurlTransport transport(source, clock);
  // The newest revision stands in the header of any answer.
  const auto range = transport.exchange({.method = "POST",
                                         .path = "/v3/kv/range",
                                         .content_type = "application/json",
                                         .body = R"({"key":"AA==","limit":"1"})"});
  if (!range.ok()) return;
  const auto answer = api::parse_json(range->body);
  const std::string revision = answer.ok() ? api::text_at(*answer, "header.revision") : "";
  std::ignore =
      transport.exchange({.method = "POST",
                          .path = "/v3/kv/compaction",
                          .content_type = "application/json",
                          .body = R"({"revision":")" + revision + R"(","physical":true})"});
}

Connection::Connection(const ControlPlane& plane, k8s::ClientOptions options) {
  auto source = k8s::CredentialSource::from_kubeconfig(plane.kubeconfig());
  if (!source.ok()) {
    std::fprintf(stderr, "%s\n", source.status().to_string().c_str());
    std::abort();
  }
  credentials = std::move(*source);
  transport = std::make_unique<k8s::CurlTransport>(*credentials, clock);
  options.metrics = &metrics;
  client = std::make_unique<k8s::HttpClient>(*transport, clock, options);
}

}  // namespace larder::kube_test
