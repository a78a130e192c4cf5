#include "tests/component/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <thread>

namespace larder::test {
namespace {

Fd connect_to(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) return {};
  return fd;
}

}  // namespace

std::string server_program(const std::string& name) {
  std::vector<std::string> places;
  const auto value = [](const char* variable) {
    return std::string(std::getenv(variable) != nullptr ? std::getenv(variable) : "");
  };
  if (!value("LARDER_CACHE").empty()) places.push_back(value("LARDER_CACHE"));
  if (!value("XDG_CACHE_HOME").empty()) places.push_back(value("XDG_CACHE_HOME") + "/larder");
  if (!value("HOME").empty()) places.push_back(value("HOME") + "/.cache/larder");
  for (const std::string& place : places)
    if (std::filesystem::exists(place + "/servers/" + name)) return place + "/servers/" + name;
  return "";
}

std::uint16_t free_port() {
  std::random_device chance;
  // Below the ports that the kernel gives to connections (net.ipv4.ip_local_port_range): the next
  // connection must not take this one.
  std::uniform_int_distribution<std::uint16_t> ports(15000, 32767);
  for (int tries = 0; tries < 1000; ++tries) {
    const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(ports(chance));
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0)
      return ntohs(name.sin_port);
  }
  throw std::runtime_error("no port is free");
}

ServerProcess::ServerProcess(const std::string& name, std::vector<std::string> arguments,
                             const std::string& config)
    : program_(server_program(name)), arguments_(std::move(arguments)) {
  char folder[] = "/tmp/larder-server-XXXXXX";
  directory_ = ::mkdtemp(folder);
  if (!config.empty()) std::ofstream(directory_ + "/server.conf") << config;
  start();
}

ServerProcess::~ServerProcess() {
  kill();
  std::filesystem::remove_all(directory_);
}

void ServerProcess::start() {
  std::vector<std::string> words{
      program_,       "--port", "0",     "--unixsocket", socket(),    "--save",           "",
      "--appendonly", "no",     "--dir", directory_,     "--logfile", directory_ + "/log"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  if (const std::string config = directory_ + "/server.conf"; std::filesystem::exists(config))
    words.insert(words.begin() + 1, config);
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
    ::execv(raw[0], raw.data());
    ::_exit(127);
  }
  for (int i = 0; i < 1000; ++i) {
    if (connect_to(socket()).valid()) return;
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill();  // a constructor that throws has no destructor
  std::ifstream log(directory_ + "/log");
  const std::string said{std::istreambuf_iterator<char>(log), {}};
  throw std::runtime_error("the server did not start: " + program_ + "\n" + said);
}

void ServerProcess::signal(int number) const {
  ::kill(pid_, number);
}

void ServerProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

remote::Reply ServerProcess::ask(const std::vector<std::string>& words) const {
  const Fd fd = connect_to(socket());
  const std::vector<std::string_view> views(words.begin(), words.end());
  const std::string command = remote::format_command(views);
  std::vector<std::byte> got;
  if (::send(fd.get(), command.data(), command.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(command.size()))
    return {};
  remote::ReplyScanner scanner;
  for (;;) {
    std::byte piece[65536];
    const ssize_t bytes = ::recv(fd.get(), piece, sizeof(piece), 0);
    if (bytes <= 0) return {};
    got.insert(got.end(), piece, piece + bytes);
    if (scanner.scan(got) == remote::ReplyScanner::Found::kWhole) break;
  }
  remote::ReplyParser parser;
  Result<remote::Reply> reply = parser.parse(std::span(got).first(scanner.bytes()));
  return reply.ok() ? *std::move(reply) : remote::Reply{};
}

std::string ServerProcess::info(const std::string& section, const std::string& name) const {
  const std::string text = ask({"INFO", section}).text;
  const std::size_t at = text.find("\n" + name + ":");
  if (at == std::string::npos) return "";
  const std::size_t start = at + name.size() + 2;
  return text.substr(start, text.find('\r', start) - start);
}

}  // namespace larder::test
