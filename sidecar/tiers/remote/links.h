// Links: the connections to one server: made, greeted, watched over, made again. Owned by the tier's thread.
//
// The last of several is for what is written, the others for what is read; where one kind is away the other does both. One that
// breaks the protocol, answers too late or is closed fails alone, with all that was asked on it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shim/protocol/fd.h"
#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/breaker.h"
#include "sidecar/tiers/remote/connection.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resolver.h"

namespace larder::remote {

enum class Lane : std::uint8_t { kReads, kWrites };

class Links {
 public:
  static constexpr std::size_t kMost = 4;

  // What a greeting has found out: called from turn().
  struct Listener {
    // A connection is there, and reads are answered on it. `run` names the server's life, empty where it does not tell.
    std::function<void(const std::string& run)> ready;
    // The reply to a write that was tried.
    std::function<void(const Reply& reply)> write_answered;
  };
  Links(const RemoteOptions& options, const base::Clock& clock, Listener listener);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  Status open();  // descriptors

  // Moves bytes and calls back; makes connections; ends those that are too late. Waits up to `timeout_ns` where there is nothing to
  // do.
  void turn(std::uint64_t timeout_ns);
  // Sends what was asked since.
  void flush();
  // At most this long may pass until the next turn.
  std::uint64_t next_turn_ns() const;
  void wake() const;  // thread-safe

  bool ready() const;                                 // whether something can be asked
  const Status& failure() const { return failure_; }  // why not; ok before the first attempt has ended
  // kUnavailable, and no answer: there is no connection.
  Status ask(Lane lane, Request request);
  // Nothing of this owner is answered any more and none of its memory is touched; where that takes it, a connection is closed.
  void cancel(std::uint64_t owner);
  // Closes all: they are greeted anew, with what the files hold now. Not from within a callback.
  void restart(const Status& why);

  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  struct Link {
    enum class State : std::uint8_t { kNone, kConnecting, kGreeting, kReady };
    State state = State::kNone;
    std::unique_ptr<Connection> connection;
    std::uint64_t since_ns = 0;  // in this state
    std::uint64_t used_ns = 0;
    std::uint32_t events = 0;  // that epoll watches for
    bool more = false;         // there may be bytes without an event
    bool event = false;
    Status greeted;  // what was wrong with it
    std::string run;
  };

  std::size_t count() const { return links_.size(); }
  bool of_lane(std::size_t number, Lane lane) const;
  void pump(Link& link);
  void watch(Link& link);
  void tend(Link& link, std::uint64_t now_ns);
  std::uint64_t limit_ns(const Link& link) const;
  void connect(Link& link);
  Result<std::unique_ptr<Stream>> open_stream(const Address& address) const;
  void attempt_failed(const Status& why);
  void greet(Link& link);
  void ask_greeting(Link& link, std::vector<std::string_view> words, const char* types, Then then);
  void ping(Link& link);
  void fail(Link& link, Status why);  // by value: it may be what the link itself says

  const RemoteOptions& options_;
  const base::Clock& clock_;
  const Listener listener_;
  Fd epoll_, wake_fd_;
  Resolver resolver_{options_, wake_fd_};
  Breaker breaker_;
  std::vector<Link> links_;
  std::vector<Address> addresses_;
  std::size_t next_address_ = 0;
  bool resolving_ = false;
  std::uint64_t resolving_since_ns_ = 0;
  Status failure_;
  std::uint64_t past_sent_bytes_ = 0, past_received_bytes_ = 0;
};

}  // namespace larder::remote
