#include "tests/bench/trickle_proxy.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>

#include "shim/base/fd.h"

namespace larder::bench {
namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
  return name;
}

bool send_all(int to, const std::byte* bytes, std::size_t count) {
  while (count != 0) {
    const ssize_t sent = ::send(to, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

// `slow` null: never.
void pass_on(int from, int to, const std::atomic<bool>* slow) {
  const auto piece = std::make_unique<std::array<std::byte, 256 << 10>>();
  for (;;) {
    const bool trickles = slow != nullptr && *slow;
    const ssize_t got = ::recv(from, piece->data(), trickles ? 1 : piece->size(), 0);
    if (got <= 0) break;
    if (trickles) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (!send_all(to, piece->data(), static_cast<std::size_t>(got))) break;
  }
  ::shutdown(from, SHUT_RDWR);
  ::shutdown(to, SHUT_RDWR);
}

void serve(const Fd& listener, const std::string& server, const std::atomic<bool>* slow) {
  const sockaddr_un name = address_of(server);
  for (;;) {
    const auto near =
        std::make_shared<Fd>(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto far = std::make_shared<Fd>(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(far->get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0)
      continue;
    std::thread([near, far] { pass_on(near->get(), far->get(), nullptr); }).detach();
    std::thread([near, far, slow] { pass_on(far->get(), near->get(), slow); }).detach();
  }
}

}  // namespace

TrickleProxy::TrickleProxy(const std::string& path, const std::string& server) {
  void* const shared =
      ::mmap(nullptr, sizeof(*slow_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("no memory");
  slow_ = new (shared) std::atomic<bool>(false);
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un name = address_of(path);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 ||
      ::listen(listener.get(), 16) != 0)
    throw std::runtime_error("cannot listen at " + path);
  process_ = std::make_unique<Child>([&] { serve(listener, server, slow_); });
}

TrickleProxy::~TrickleProxy() {
  process_.reset();
  ::munmap(slow_, sizeof(*slow_));
}

}  // namespace larder::bench
