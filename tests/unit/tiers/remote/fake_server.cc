#include "tests/unit/tiers/remote/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace larder::remote::testing_support {
namespace {

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

// One command off the front of the received bytes: "*2\r\n$3\r\nGET\r\n$1\r\na\r\n". Empty: not all
// of the command is there.
std::optional<FakeServer::Words> take_command(const std::string& bytes, std::size_t& at) {
  std::size_t from = at;
  const auto number = [&]() -> std::optional<std::size_t> {
    const std::size_t end = bytes.find("\r\n", from);
    if (end == std::string::npos) return std::nullopt;
    const std::size_t value = std::strtoul(bytes.c_str() + from + 1, nullptr, 10);
    from = end + 2;
    return value;
  };
  const std::optional<std::size_t> count = number();
  if (!count) return std::nullopt;
  FakeServer::Words words;
  for (std::size_t i = 0; i < *count; ++i) {
    const std::optional<std::size_t> size = number();
    if (!size || bytes.size() < from + *size + 2) return std::nullopt;
    words.push_back(bytes.substr(from, *size));
    from += *size + 2;
  }
  at = from;
  return words;
}

}  // namespace

FakeServer::FakeServer(Hook hook, Kind kind)
    : kind_(kind), hooked_(std::make_shared<Hooked>(std::move(hook))) {
  char folder[] = "/tmp/larder-fake-XXXXXX";
  directory_ = ::mkdtemp(folder);
  kind == Kind::kStandalone ? listen_at_path() : listen_at_port();
  acceptor_ = std::thread([this] { accept_all(); });
}

void FakeServer::listen_at_port() {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0 ||
      ::listen(listener_.get(), 64) != 0)
    std::abort();
  ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &size);
  port_ = ntohs(name.sin_port);
}

void FakeServer::listen_at_path() {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, socket().c_str(), sizeof(name.sun_path) - 1);
  listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 ||
      ::listen(listener_.get(), 64) != 0)
    std::abort();
}

std::string FakeServer::slots(const std::vector<std::uint16_t>& ports) {
  std::string all = "*" + std::to_string(ports.size()) + "\r\n";
  for (std::size_t i = 0; i < ports.size(); ++i)
    all += "*3\r\n:" + std::to_string(i * 16384 / ports.size()) +
           "\r\n:" + std::to_string((i + 1) * 16384 / ports.size() - 1) +
           "\r\n*3\r\n$9\r\n127.0.0.1\r\n:" + std::to_string(ports[i]) + "\r\n$2\r\nid\r\n";
  return all;
}

FakeServer::~FakeServer() {
  ending_ = true;
  acceptor_.join();
  hang_up();
  for (std::thread& thread : threads_) thread.join();
  std::filesystem::remove_all(directory_);
}

void FakeServer::set_hook(Hook hook) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Hooked> former =
      std::exchange(hooked_, std::make_shared<Hooked>(std::move(hook)));
  nobody_in_it_.wait(lock, [&] { return former->callers == 0; });
}

std::vector<std::string> FakeServer::keys() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_)
    if (!key.ends_with(":probe")) keys.push_back(key);
  return keys;
}

std::string FakeServer::part_of(const std::string& record_key, unsigned number) {
  for (const std::string& key : keys())
    if (key.starts_with(record_key + ":") && key.ends_with(":" + std::to_string(number)))
      return key;
  return "";
}

std::string FakeServer::value(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? "" : found->second;
}

void FakeServer::erase(const std::string& key) {
  const std::lock_guard lock(mutex_);
  values_.erase(key);
}

void FakeServer::hang_up() {
  const std::lock_guard lock(mutex_);
  for (const Fd& fd : sockets_) ::shutdown(fd.get(), SHUT_RDWR);
}

void FakeServer::accept_all() {
  while (!ending_) {
    pollfd polled{listener_.get(), POLLIN, 0};
    if (::poll(&polled, 1, 20) <= 0) continue;
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ++connections;
    const std::lock_guard lock(mutex_);
    sockets_.emplace_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

// Waits as long as answers are held back; returns whether more came before the release.
bool FakeServer::has_more_while_held(int fd) {
  while (holds && !ending_) {
    pollfd polled{fd, POLLIN, 0};
    if (::poll(&polled, 1, 5) > 0) return true;
  }
  return false;
}

void FakeServer::serve(int fd) {
  std::string came, out;
  bool answers = true;
  std::vector<char> piece(1 << 16);
  for (;;) {
    const std::size_t most =
        sips ? std::min<std::size_t>(trickle_bytes, piece.size()) : piece.size();
    const ssize_t got = ::recv(fd, piece.data(), most, 0);
    if (got <= 0) return;
    if (sips) std::this_thread::sleep_for(std::chrono::milliseconds(trickle_ms));
    came.append(piece.data(), static_cast<std::size_t>(got));
    std::size_t at = 0;
    while (const std::optional<Words> words = take_command(came, at)) {
      const std::string bytes = answer(*words);
      answers = answers && !bytes.empty();
      if (answers) out += bytes;
    }
    came.erase(0, at);
    if (has_more_while_held(fd)) continue;
    if (!mute && !send(fd, out)) return;
    out.clear();
  }
}

bool FakeServer::send(int fd, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size() && !ending_;) {
    const unsigned wait = trickle_ms;
    const std::size_t most =
        wait == 0 ? bytes.size() - at : std::min<std::size_t>(trickle_bytes, bytes.size() - at);
    const ssize_t sent = ::send(fd, bytes.data() + at, most, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
    if (wait != 0) std::this_thread::sleep_for(std::chrono::milliseconds(wait));
  }
  return true;
}

std::string FakeServer::answer(const Words& words) {
  std::unique_lock lock(mutex_);
  if (const std::shared_ptr<Hooked> hooked = hooked_; hooked->hook) {
    ++hooked->callers;
    lock.unlock();
    const std::optional<std::string> bytes = hooked->hook(words);
    lock.lock();
    if (--hooked->callers == 0) nobody_in_it_.notify_all();
    if (bytes) return *bytes;
  }
  return honest(words);
}

// REQUIRES: the mutex.
std::string FakeServer::honest(const Words& words) {
  const std::string& verb = words.front();
  const std::string mode = kind_ == Kind::kStandalone ? "standalone"
                           : kind_ == Kind::kCluster  ? "cluster"
                                                      : "sentinel";
  if (verb == "HELLO") return "*4\r\n" + bulk("mode") + bulk(mode) + bulk("role") + bulk("master");
  if (verb == "CLUSTER") return slots({port_});
  if (verb == "ASKING") return "+OK\r\n";
  if (verb == "INFO") return bulk("# Server\r\nrun_id:fake\r\n");
  if (verb == "PING") return "+PONG\r\n";
  if (verb == "SELECT") return "+OK\r\n";
  const auto found = words.size() > 1 ? values_.find(words[1]) : values_.end();
  const bool there = found != values_.end();
  const std::string former = there ? bulk(found->second) : "$-1\r\n";
  if (verb == "SET") {
    const auto says = [&](const char* word) {
      return std::find(words.begin() + 3, words.end(), word) != words.end();
    };
    if (there && says("NX")) return "$-1\r\n";
    values_[words[1]] = words[2];
    return says("GET") ? former : "+OK\r\n";
  }
  if (verb == "GET") return former;
  if (verb == "GETDEL") {
    if (there) values_.erase(found);
    return former;
  }
  if (verb == "GETRANGE")
    return bulk(!there ? "" : found->second.substr(0, std::stoul(words[3]) + 1));
  if (verb == "UNLINK") {
    std::size_t gone = 0;
    for (std::size_t i = 1; i < words.size(); ++i) gone += values_.erase(words[i]);
    unlinked += static_cast<unsigned>(gone);
    return ":" + std::to_string(gone) + "\r\n";
  }
  if (verb == "SCAN") {
    const std::string start = words[3].substr(0, words[3].size() - 1);  // MATCH start*
    std::string keys;
    std::size_t count = 0;
    for (const auto& [key, value] : values_)
      if (key.starts_with(start)) ++count, keys += bulk(key);
    return "*2\r\n$1\r\n0\r\n*" + std::to_string(count) + "\r\n" + keys;
  }
  return "-ERR unknown command\r\n";
}

}  // namespace larder::remote::testing_support
