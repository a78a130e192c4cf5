// ServerConnection: one peer that asks: reads requests, sends replies in their order, and sends
// chunks straight from held slots. Owned by the thread that serves peers.
//
// A request that needs the store waits for its HoldReply, and later requests wait behind it. The
// destructor closes the socket first, and then lets go of the chunks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/base/byte_budget.h"
#include "sidecar/base/clock.h"
#include "sidecar/net/stream.h"
#include "sidecar/tiers/peer/holds.h"
#include "sidecar/tiers/peer/options.h"
#include "sidecar/tiers/peer/wire.h"

namespace larder::peer {

// Requests of peers to this larderd. Counters only grow; the last line has gauges.
struct ServerCounters {
  std::uint64_t accepted = 0, refused = 0, broken = 0, stalled = 0;  // connections
  std::uint64_t probes = 0, keys = 0, keys_found = 0, gets = 0, gets_missed = 0, sent_bytes = 0;
  std::uint64_t connections = 0, peers = 0, held_bytes = 0;
};

class ServerConnection {
 public:
  // Of all connections of a server. All members outlive the connections.
  struct Services {
    const ServerOptions& options;
    HoldExchange& exchange;
    HoldTable& holds;
    base::ByteBudget& budget;
    ServerCounters& counters;
  };
  ServerConnection(Services& services, std::uint64_t number, std::unique_ptr<net::Stream> stream,
                   std::string address, std::uint64_t now_ns);
  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;

  // Moves bytes without waiting, and serves requests. Not ok: the caller destroys the connection.
  Status turn(std::uint64_t now_ns);
  // The reply to the request that waits. The caller calls turn() afterwards.
  void answer(HoldReply reply, std::uint64_t now_ns);

  int fd() const { return stream_->fd(); }
  std::uint32_t events() const;   // of epoll, to wait for
  std::uint64_t next_ns() const;  // the next turn without an event
  bool greeted() const { return other_.has_value(); }
  const std::optional<Instance>& other() const { return other_; }
  const std::string& address() const { return address_; }
  // Whether nothing is asked, sent or held: the end of the connection costs the peer a connect.
  bool idle() const;
  std::uint64_t asked_ns() const { return asked_ns_; }  // the last bytes of a request

  // For the poller: see net::Poller::watch().
  bool ready = false;
  std::uint32_t watched = 0;

 private:
  static constexpr std::size_t kMostReplies = 64;  // to send, before requests are read again
  static constexpr std::uint64_t kMostReplyBytes = 8 << 20;
  static constexpr std::uint64_t kMostAtOnce =
      8 << 20;  // bytes in one turn(), so that other peers have their turn
  static constexpr std::size_t kRead = 16 << 10;
  static constexpr std::uint64_t kMostTaken = 1 << 20;  // bytes of requests in one turn(), likewise
  // Bytes in one send under a rate. The budget pays in small steps, so that a slow rate makes a
  // slow read and not a pause: a reader without 16 KiB of progress in 500 ms gives up.
  static constexpr std::size_t kRateSlice = 64 << 10;
  // From one GET of a chunk to the next.
  static constexpr std::uint64_t kSendHoldNs = 1'000'000'000;

  // A part of a reply. A payload is in a slot that holds_ holds for it.
  struct Piece {
    std::string text = {};
    std::span<const std::byte> payload = {};
    tiers::ChunkKey key = {};
    bool reply_ends = false;
    std::size_t size() const { return text.size() + payload.size(); }
  };

  bool may_read() const;
  Status check_times(std::uint64_t now_ns);
  Status receive(std::uint64_t now_ns);
  Status take_requests(std::uint64_t now_ns);
  void serve(Request request, std::uint64_t now_ns);
  void serve_hello(const Request& request);
  void serve_get(const Request& request, std::uint64_t now_ns);
  void ask_store(Request request, std::uint64_t now_ns);
  void push(std::string text);
  void push_payload(const Request& get, const HeldChunk& chunk, std::uint64_t now_ns);
  Status send(std::uint64_t now_ns);
  void account(std::size_t bytes);

  Services& services_;
  const std::uint64_t number_;
  const std::string address_;
  std::shared_ptr<Holds> holds_;  // of the peer, with its other connections; null before HELLO
  std::unique_ptr<net::Stream> stream_;
  bool established_ = false;
  std::optional<Instance> other_;
  std::optional<Request> waiting_;  // for the store

  std::vector<std::byte> buffer_;  // received and not parsed
  bool unparsed_ = false;          // buffer_ may have a whole request
  bool unread_ = false;            // bytes may wait in the socket, or inside TLS without an event
  net::ReplyScanner scanner_;      // a request has the form of an array reply
  net::ReplyParser parser_;
  std::deque<Piece> out_;
  std::size_t replies_ = 0;      // whole replies in out_
  std::uint64_t out_bytes_ = 0;  // in out_
  std::size_t part_sent_ = 0;    // of the first piece
  bool rate_waits_ = false;
  bool more_ = false;  // the stream may have more bytes without an event

  const std::uint64_t since_ns_;
  std::uint64_t moved_ns_, asked_ns_;
};

}  // namespace larder::peer
