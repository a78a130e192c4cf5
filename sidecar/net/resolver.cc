#include "sidecar/net/resolver.h"

#include <fcntl.h>
#include <netdb.h>

#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace larder::net {
namespace {

Result<std::vector<Address>> look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return Status(Code::kUnavailable, host + ": " + ::gai_strerror(error));
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Address address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    address.text = host + ":" + std::to_string(port);
    addresses.push_back(std::move(address));
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace

struct Resolver::Question {
  std::mutex mutex;
  std::optional<Result<std::vector<Address>>> answer;
  Fd ready_fd;  // a copy: the resolver may be gone before the reply
};

Resolver::Resolver(Endpoint endpoint, const Fd& ready_fd)
    : endpoint_(std::move(endpoint)), ready_fd_(ready_fd) {}
Resolver::~Resolver() = default;

std::optional<Result<std::vector<Address>>> Resolver::poll() {
  if (!endpoint_.unix_path.empty()) {
    Result<Address> address = unix_address(endpoint_.unix_path);
    if (!address.ok()) return address.status();
    return std::vector<Address>{*std::move(address)};
  }
  // One question at a time. A server that never answers blocks one thread, not one more at each
  // poll.
  if (question_ != nullptr) {
    const std::lock_guard lock(question_->mutex);
    if (!question_->answer) return std::nullopt;
  }
  if (question_ != nullptr) return std::move(std::exchange(question_, nullptr)->answer);
  // A numeric address needs no thread and no resolver.
  if (Result<std::vector<Address>> addresses =
          look_up(endpoint_.host, endpoint_.port, AI_NUMERICHOST);
      addresses.ok())
    return addresses;
  question_ = std::make_shared<Question>();
  question_->ready_fd = Fd(::fcntl(ready_fd_.get(), F_DUPFD_CLOEXEC, 0));
  // getaddrinfo() blocks for many seconds without a server, and cannot be interrupted. The detached
  // thread owns all that it uses.
  const auto ask = [question = question_, host = endpoint_.host, port = endpoint_.port] {
    Result<std::vector<Address>> addresses = look_up(host, port, AI_ADDRCONFIG);
    const std::lock_guard lock(question->mutex);
    question->answer = std::move(addresses);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(question->ready_fd.get(), &one, sizeof(one));
  };
  try {
    std::thread(ask).detach();
  } catch (const std::system_error&) {
    question_ = nullptr;
    return Status(Code::kUnavailable,
                  endpoint_.host + " is not resolved: no thread can be started");
  }
  return std::nullopt;
}

}  // namespace larder::net
