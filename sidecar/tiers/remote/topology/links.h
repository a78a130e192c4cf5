// Links: the connections to one server of any kind: connect, handshake, watch, reconnect. Owned by
// the thread of the tier.
//
// Of several connections the last half is for writes, the others are for reads; if one half is
// away, the other half does both. A connection that breaks the protocol, answers too late or is
// closed fails alone, with all of its commands.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/net/breaker.h"
#include "sidecar/net/connection.h"
#include "sidecar/net/poller.h"
#include "sidecar/net/resolver.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/handshake.h"

namespace larder::remote {

class Links {
 public:
  static constexpr std::size_t kMost = 4;
  // The number of write connections among `connections`.
  static constexpr std::size_t writers(std::size_t connections) { return (connections + 1) / 2; }
  // A long reply or command over a slow network is in time as long as so many bytes move within
  // `answer_ms`.
  static constexpr std::uint64_t kLeastProgress = 16 << 10;

  // Events of the server. Called from turn() and flush().
  struct Listener {
    std::function<void()> ready;  // a connection is ready
    // The server has another `run_id` than before: its chunks may be gone.
    std::function<void()> other_life;
    // A reply that shows the health of a lane: the test in the handshake (not for nodes of a
    // Cluster, whose keys are unknown), and each error reply to a command with `tells` (`chunk`:
    // about one chunk).
    std::function<void(Lane lane, const Reply& reply, bool chunk)> answered;
  };
  // All arguments except `endpoint` and `listener` outlive this object.
  Links(const RemoteOptions& options, const base::Clock& clock, Poller& poller, Kind kind,
        Endpoint endpoint, Listener listener);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Moves bytes that the poller reported, and calls back; makes connections; ends late connections.
  void turn();
  // Sends the commands since the last call.
  void flush();
  // The longest allowed time until the next turn.
  std::uint64_t next_turn_ns() const;

  bool ready() const;  // whether commands are possible
  const Status& failure() const {
    return failure_;
  }  // why not ready; ok before the end of the first attempt
  const Endpoint& endpoint() const { return endpoint_; }
  // kUnavailable: no connection, and no reply follows. `asking`: sends ASKING before, as a node of
  // a Cluster needs for a slot that is moving to it.
  Status ask(Lane lane, Request request, bool asking = false);
  // Drops the callbacks of this owner; its memory is not touched afterwards. Closes a connection if
  // that is necessary.
  void cancel(std::uint64_t owner);
  // Closes all connections; new handshakes read the files again. REQUIRES: not within a callback.
  void restart(const Status& why);

  std::uint64_t sent_bytes() const;
  std::uint64_t received_bytes() const;

 private:
  struct Link {
    enum class State : std::uint8_t { kNone, kConnecting, kHandshake, kReady };
    State state = State::kNone;
    std::unique_ptr<Connection> connection;
    std::uint64_t since_ns = 0;  // the begin of this state
    std::uint64_t used_ns = 0;
    std::uint32_t events = 0;  // watched by epoll
    bool more = false;         // bytes may wait without an event
    bool event = false;
    Status handshaken;  // the fault of the handshake
    std::string run;
    // The progress of the oldest command: the time since kLeastProgress bytes moved.
    struct Wait {
      std::uint64_t since_ns = UINT64_MAX;  // identifies the command; as in Connection
      std::uint64_t moved_ns = 0;
      std::uint64_t moved_bytes = 0;   // moved over this connection until then
      std::int64_t arrived_bytes = 0;  // of these, without sent bytes that wait on this machine
    } wait;
  };

  std::uint32_t wanted() const {
    return kind_ == Kind::kSentinel || kind_ == Kind::kReplica ? 1 : options_.connections;
  }
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
  void ask_handshake(Link& link, std::vector<std::string_view> words, const char* types, Then then);
  void ping(Link& link);
  void fail(Link& link, Status why);  // by value: `why` may be a member of `link`

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
  bool answered_ = false;  // a reply came since the last turn
  std::uint64_t resolving_since_ns_ = 0;
  Status failure_;
  std::optional<std::string> run_;  // the last known run_id
  std::uint64_t past_sent_bytes_ = 0, past_received_bytes_ = 0;
};

}  // namespace larder::remote
