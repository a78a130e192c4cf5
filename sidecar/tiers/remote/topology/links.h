// Links: the connections to one server, of whichever kind: made, greeted, watched over, made again. Owned by the tier's thread.
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

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/connection.h"
#include "sidecar/tiers/remote/resp/handshake.h"
#include "sidecar/tiers/remote/resp/poller.h"
#include "sidecar/tiers/remote/resp/resolver.h"
#include "sidecar/tiers/remote/topology/breaker.h"

namespace larder::remote {

class Links {
 public:
  static constexpr std::size_t kMost = 4;
  // How many of so many connections are for what is written.
  static constexpr std::size_t writers(std::size_t connections) { return (connections + 1) / 2; }
  // A long answer, or command, over a slow network is in time as long as so much of it moves within `answer_ms`.
  static constexpr std::uint64_t kLeastProgress = 16 << 10;

  // What a server has let us know: called from turn() and flush().
  struct Listener {
    std::function<void()> ready;  // a connection is there
    // It is not the life of the server that was met before (its `run_id`): what it had may be gone.
    std::function<void()> other_life;
    // How it does with reads, or writes: the reply to what was tried at the greeting (of a Cluster's node: none, no key is known to
    // be its own), and each error reply to a command that tells something (`chunk`: it was about one chunk).
    std::function<void(Lane lane, const Reply& reply, bool chunk)> answered;
  };
  // All but `endpoint` and `listener` outlive it.
  Links(const RemoteOptions& options, const base::Clock& clock, Poller& poller, Kind kind, Endpoint endpoint, Listener listener);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Moves bytes where the poller has seen some, and calls back; makes connections; ends those that are too late.
  void turn();
  // Sends what was asked since.
  void flush();
  // At most this long may pass until the next turn.
  std::uint64_t next_turn_ns() const;

  bool ready() const;                                 // whether something can be asked
  const Status& failure() const { return failure_; }  // why not; ok before the first attempt has ended
  const Endpoint& endpoint() const { return endpoint_; }
  // kUnavailable, and no answer: there is no connection. `asking`: behind an ASKING, which a node of a Cluster wants to hear before
  // a command about a slot that just comes to it.
  Status ask(Lane lane, Request request, bool asking = false);
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
    Status handshaken;  // what was wrong with it
    std::string run;
    // Of what its oldest command waits for: since when no kLeastProgress of it has come, or gone.
    struct Wait {
      std::uint64_t since_ns = UINT64_MAX;  // that command; as the connection's
      std::uint64_t moved_ns = 0;
      std::uint64_t moved_bytes = 0;   // until then, over this connection
      std::int64_t arrived_bytes = 0;  // of them, without those sent that wait on this machine
    } wait;
  };

  std::uint32_t wanted() const { return kind_ == Kind::kSentinel || kind_ == Kind::kReplica ? 1 : options_.connections; }
  std::size_t count() const { return links_.size(); }
  bool of_lane(std::size_t number, Lane lane) const;
  int suits(std::size_t number, Lane lane, const Request& request) const;
  void pump(Link& link);
  void watch(Link& link);
  void maintain(Link& link, std::uint64_t now_ns);
  void note_progress(Link& link, std::uint64_t now_ns) const;
  std::uint64_t limit_ns(const Link& link) const;
  void connect(Link& link);
  Result<std::unique_ptr<Stream>> open_stream(const Address& address) const;
  void attempt_failed(const Status& why);
  void handshake(Link& link);
  void served(Link& link);
  void ask_greeting(Link& link, std::vector<std::string_view> words, const char* types, Then then);
  void ping(Link& link);
  void fail(Link& link, Status why);  // by value: it may be what the link itself says

  const RemoteOptions& options_;
  const base::Clock& clock_;
  Poller& poller_;
  const Kind kind_;
  const Endpoint endpoint_;
  const Listener listener_;
  Resolver resolver_;
  Breaker breaker_;
  std::vector<Link> links_;
  std::vector<Address> addresses_;
  std::size_t next_address_ = 0;
  bool resolving_ = false;
  bool answered_ = false;  // something was, since the last turn: others may have to act on it
  std::uint64_t resolving_since_ns_ = 0;
  Status failure_;
  std::optional<std::string> run_;  // of its life, as far as one was met
  std::uint64_t past_sent_bytes_ = 0, past_received_bytes_ = 0;
};

}  // namespace larder::remote
