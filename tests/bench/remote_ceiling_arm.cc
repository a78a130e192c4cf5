// The ceiling: the remote tier's commands by hand, formatted beforehand, on one connection of one
// thread without other work.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstring>

#include "shim/base/fd.h"
#include "sidecar/tiers/remote/resp/wire.h"
#include "tests/bench/remote_arms.h"

namespace larder::bench {
namespace {

constexpr const char* kPrefix = "ceiling";
// the target of receives: stays in the processor's cache
constexpr std::size_t kThrowAway = 256 << 10;

Fd connect_to(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(port);
  must(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0,
       "ceiling: no connection");
  return fd;
}

struct Write {
  std::string before;
  std::size_t body = 0;
  std::string after;
};
struct Read {
  std::string command;
  std::size_t bytes = 0;  // of the value
};

class CeilingArm final : public RemoteArm {
 public:
  CeilingArm(const Place& place, std::uint64_t window)
      : RemoteArm("ceiling"),
        pid_(place.pid),
        window_(window),
        fd_(connect_to(place.port)),
        away_(kThrowAway) {}

  std::string values(std::uint64_t) const override { return "as larder"; }

  Cost set(const Chunks& chunks, std::uint64_t first) override {
    std::vector<Write> writes;
    for (std::size_t i = 0; i < chunks.count(); ++i)
      add_writes(chunks.record(i, first + i), writes);
    Stopwatch watch(pid_);
    watch.start();
    std::size_t answered = 0;
    for (const Write& write : writes) {
      send(write, chunks.source(0));
      answered += take_answers(MSG_DONTWAIT);
    }
    const std::size_t expected =
        kStored * (writes.size() - chunks.count()) + kNothing * chunks.count();
    while (answered < expected) answered += take_answers(0);
    watch.stop();
    must(answered == expected, "ceiling: other answers than expected");
    return watch.cost();
  }

  Cost get(const Chunks& chunks, std::uint64_t first) override {
    std::vector<Read> reads;
    for (std::size_t i = 0; i < chunks.count(); ++i) {
      const remote::Record record = chunks.record(i, first + i);
      for (std::uint32_t number = 0; number < record.parts(); ++number) {
        const std::string key = remote::part_key(kPrefix, record, number);
        reads.push_back({remote::format_command(std::array<std::string_view, 2>{"GET", key}),
                         record.part_size(number)});
      }
    }
    Stopwatch watch(pid_);
    watch.start();
    std::size_t asked = 0, outstanding = 0;
    left_ = 0;
    for (std::size_t answered = 0; answered < reads.size();) {
      std::string commands;
      for (; asked < reads.size() &&
             (outstanding == 0 || outstanding + reads[asked].bytes <= window_);
           ++asked) {
        commands += reads[asked].command;
        outstanding += reads[asked].bytes;
      }
      if (!commands.empty())
        must(::send(fd_.get(), commands.data(), commands.size(), MSG_NOSIGNAL) ==
                 static_cast<ssize_t>(commands.size()),
             "send");
      for (const std::size_t ended = throw_away(reads, answered); answered < ended; ++answered)
        outstanding -= reads[answered].bytes;
    }
    watch.stop();
    return watch.cost();
  }

 private:
  static constexpr std::size_t kStored = 5,
                               // bytes of an answer: "+OK\r\n", "$-1\r\n"; "$0\r\n\r\n" to the look
      // at the record
      kNothing = 6;

  static void add_writes(const remote::Record& record, std::vector<Write>& writes) {
    const std::string key = remote::record_key(kPrefix, record.key);
    writes.push_back({remote::format_command(std::array<std::string_view, 4>{"GETRANGE", key, "0",
                                                                             remote::kRecordEnd}),
                      0, ""});
    for (std::uint32_t number = 0; number < record.parts(); ++number) {
      const std::size_t bytes = record.part_size(number);
      const remote::Around around = remote::format_around(
          std::array<std::string_view, 2>{"SET", remote::part_key(kPrefix, record, number)}, bytes,
          {});
      writes.push_back({around.before, bytes, around.after});
    }
    const std::string text = remote::encode_record(record);
    writes.push_back(
        {remote::format_command(std::array<std::string_view, 4>{"SET", key, text, "GET"}), 0, ""});
  }

  void send(const Write& write, std::span<const std::byte> body) const {
    std::array<iovec, 3> parts{iovec{const_cast<char*>(write.before.data()), write.before.size()},
                               iovec{const_cast<std::byte*>(body.data()), write.body},
                               iovec{const_cast<char*>(write.after.data()), write.after.size()}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const std::size_t all = write.before.size() + write.body + write.after.size();
    must(::sendmsg(fd_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(all),
         "ceiling: send");
  }

  // How many bytes have come.
  std::size_t take_answers(int flags) {
    const ssize_t got = ::recv(fd_.get(), away_.data(), away_.size(), flags);
    if (got < 0 && (flags & MSG_DONTWAIT) != 0) return 0;
    must(got > 0, "ceiling: the server hung up");
    must(std::memchr(away_.data(), 'E', static_cast<std::size_t>(got)) == nullptr,
         "ceiling: an error");
    return static_cast<std::size_t>(got);
  }

  // Receives once. How many of the replies have come by now.
  std::size_t throw_away(const std::vector<Read>& reads, std::size_t answered) {
    const ssize_t got = ::recv(fd_.get(), away_.data() + line_, away_.size() - line_, 0);
    must(got > 0, "ceiling: the server hung up");
    std::size_t at = 0;
    const std::size_t end = line_ + static_cast<std::size_t>(got);
    line_ = 0;
    while (at < end) {
      if (left_ == 0) {
        const void* const newline = std::memchr(away_.data() + at, '\n', end - at);
        if (newline == nullptr) {
          line_ = end - at;
          std::memmove(away_.data(), away_.data() + at, line_);
          break;
        }
        const std::string wanted = "$" + std::to_string(reads[answered].bytes) + "\r\n";
        const std::size_t size =
            static_cast<std::size_t>(static_cast<const char*>(newline) - (away_.data() + at)) + 1;
        must(std::string_view(away_.data() + at, size) == wanted,
             "ceiling: a value that is not there");
        at += size;
        left_ = reads[answered].bytes + 2;
      }
      const std::size_t part = std::min(left_, end - at);
      at += part;
      left_ -= part;
      if (left_ == 0 && part != 0) ++answered;
    }
    return answered;
  }

  const pid_t pid_;
  const std::uint64_t window_;
  const Fd fd_;
  std::vector<char> away_;
  std::size_t line_ = 0;  // bytes of a length that is not whole
  std::size_t left_ = 0;  // of the arriving value, with its end
};

}  // namespace

std::unique_ptr<RemoteArm> ceiling_arm(const Place& place, std::uint64_t window) {
  return std::make_unique<CeilingArm>(place, window);
}

}  // namespace larder::bench
