// PeerLink: one connection to a peer: connect, HELLO, watch, reconnect. Owned by the thread of the
// tier.
//
// A connection that breaks the protocol, moves too little in progress_ms while a request is open,
// or is closed, fails with all of its requests; from then on no byte is written into their memory.
#pragma once

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
#include "sidecar/tiers/peer/options.h"

namespace larder::peer {

class PeerLink {
 public:
  // All arguments except `endpoint` outlive this object. The poller refers to this object.
  PeerLink(const ClientOptions& options, const base::Clock& clock, net::Poller& poller,
           net::Endpoint endpoint);
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;

  // Moves bytes that the poller reported, and calls back; connects; ends a dead connection.
  void turn();
  // Sends the requests since the last call.
  void flush();
  // The time of the next turn without an event.
  std::uint64_t next_ns() const;

  bool ready() const { return state_ == State::kReady; }
  // Whether the connection waits for nothing.
  bool idle() const { return ready() && connection_->commands() == 0; }
  // Whether the peer answers: no request is open for longer than `ms`.
  bool answers_within(std::uint64_t ms) const;
  // The peer that answered HELLO last.
  const std::optional<Instance>& other() const { return other_; }
  // Why not ready; ok before the end of the first attempt.
  const Status& failure() const { return failure_; }

  // kUnavailable: not ready, and no reply follows.
  Status ask(net::Request request);
  // Takes back the requests of this owner; their memory is not touched afterwards.
  void cancel(std::uint64_t owner);
  // Closes the connection and connects no more, until resume().
  void retire();
  void resume();
  bool retired() const { return state_ == State::kRetired; }

  // How many more seconds the certificates of the connection are valid; INT64_MAX without strict
  // TLS, and without a connection.
  std::int64_t valid_s() const;

  std::uint64_t bytes() const {
    return connection_ ? connection_->bytes() : 0;
  }  // of open payloads
  std::uint64_t sent_bytes() const {
    return past_sent_ + (connection_ ? connection_->sent_bytes : 0);
  }
  std::uint64_t received_bytes() const {
    return past_received_ + (connection_ ? connection_->received_bytes : 0);
  }

 private:
  enum class State : std::uint8_t { kNone, kConnecting, kHandshake, kReady, kRetired };

  void pump();
  void watch();
  void connect(std::uint64_t now_ns);
  Result<std::unique_ptr<net::Stream>> open_stream(const net::Address& address) const;
  void greet(std::uint64_t now_ns);
  void note_progress(std::uint64_t now_ns);
  std::uint64_t limit_ns() const;
  void fail(Status why);
  void attempt_failed(const Status& why);

  const ClientOptions& options_;
  const base::Clock& clock_;
  net::Poller& poller_;
  const net::Endpoint endpoint_;
  net::Resolver resolver_;
  net::Breaker breaker_;
  State state_ = State::kNone;
  std::unique_ptr<net::Connection> connection_;
  std::optional<Instance> other_;
  Status failure_;
  Status greeting_;  // the fault of HELLO
  std::vector<net::Address> addresses_;
  std::size_t next_address_ = 0;
  bool resolving_ = false;
  std::uint64_t since_ns_ = 0, used_ns_ = 0;  // of the state; of the last request
  std::uint64_t refused_until_ns_ = 0;
  // The progress of the oldest request: kLeastProgress bytes were received at `at_ns`.
  struct Progress {
    std::uint64_t since_ns = UINT64_MAX, bytes = 0, at_ns = 0;
  } progress_;
  std::uint32_t events_ = 0;
  bool event_ = false, more_ = false;
  std::uint64_t past_sent_ = 0, past_received_ = 0;
};

}  // namespace larder::peer
