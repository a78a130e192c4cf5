#include "tests/component/larderd_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace larder::test {
namespace {

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), got);
  ::pclose(pipe);
  return text;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command) : pid_(::fork()) {
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a dying test leaves no process behind
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

ChildProcess::ChildProcess(const std::function<int()>& work) : pid_(::fork()) {
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::_exit(work());
}

ChildProcess::~ChildProcess() {
  signal(SIGKILL);
  wait(10'000);
}

void ChildProcess::signal(int number) const {
  if (status_ == -1) ::kill(pid_, number);
}

void ChildProcess::note(int raw) {
  status_ = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
}

int ChildProcess::kill() {
  signal(SIGKILL);
  int raw = 0;
  if (status_ == -1 && ::waitpid(pid_, &raw, 0) == pid_) note(raw);
  return status_;
}

int ChildProcess::wait(int timeout_ms) {
  eventually(
      [this] {
        int raw = 0;
        if (status_ == -1 && ::waitpid(pid_, &raw, WNOHANG) == pid_) note(raw);
        return status_ != -1;
      },
      timeout_ms);
  return status_;
}

LarderdProcess::LarderdProcess(const std::string& size, const std::string& log_level,
                               const std::string& program, const std::string& more)
    : program_(program) {
  std::string pattern = (std::filesystem::temp_directory_path() / "larder-test-XXXXXX").string();
  folder_ = ::mkdtemp(pattern.data());
  name_ = std::filesystem::path(folder_).filename().string();
  socket_ = folder_ + "/larder.sock";
  admin_socket_ = folder_ + "/larder.admin";
  std::ofstream(folder_ + "/larder.yaml")
      << "socket: " << socket_ << "\nlog_level: " << log_level << "\nmemory:\n  size: " << size
      << "\n  shm_name: " << name_ << "\nhttp:\n  listen: \"\"\n  admin_socket: " << admin_socket_
      << "\n"
      << more;
  start();
}

LarderdProcess::~LarderdProcess() {
  process_.reset();
  std::filesystem::remove_all(folder_);
  lose_memory();
}

void LarderdProcess::lose_memory() const {
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    if (file.path().filename().string().starts_with(name_ + "."))
      std::filesystem::remove(file.path());
}

void LarderdProcess::start() {
  process_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{program_, "--config", folder_ + "/larder.yaml"});
  const bool ready = eventually(
      [this] {
        return status_number({"memory", "touched_bytes"}) > 0;
      },
      60'000);
  EXPECT_TRUE(ready) << "larderd is not ready";
}

void LarderdProcess::kill_and_restart(int signal, const std::function<void()>& between) {
  process_->signal(signal);
  process_->wait(30'000);
  if (between) between();
  start();
}

// null: absent.
nlohmann::json LarderdProcess::status_at(const std::vector<std::string>& path) const {
  const std::string text = output_of(std::string(LARDERCTL_PATH) + " status --json --socket " +
                                     admin_socket_ + " 2>/dev/null");
  nlohmann::json node = nlohmann::json::parse(text, nullptr, false);
  for (const std::string& key : path) {
    if (node.is_array() && node.size() > std::strtoul(key.c_str(), nullptr, 10)) {
      node = nlohmann::json(node[std::strtoul(key.c_str(), nullptr, 10)]);
      continue;
    }
    if (!node.is_object() || !node.contains(key)) return nullptr;
    node = nlohmann::json(node[key]);
  }
  return node;
}

std::string LarderdProcess::status_text(const std::vector<std::string>& path) const {
  const nlohmann::json node = status_at(path);
  return node.is_string() ? node.get<std::string>() : "";
}

std::int64_t LarderdProcess::status_number(const std::vector<std::string>& path) const {
  const nlohmann::json node = status_at(path);
  if (node.is_array()) return static_cast<std::int64_t>(node.size());
  return node.is_number() ? node.get<std::int64_t>() : -1;
}

}  // namespace larder::test
