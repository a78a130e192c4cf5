// Connection: commands in, answers out, over one Stream. Every reply belongs to exactly one command, in the order of the commands;
// where that is in doubt the connection is over, and everything on it has failed. Owned by one thread.
//
// Bodies are sent from where they lie, payloads are received to where they belong: memory of the caller, which stays its owner's
// until the command was answered or cancelled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/tiers/remote/resp/receive_window.h"
#include "sidecar/tiers/remote/resp/resp.h"
#include "sidecar/tiers/remote/resp/stream.h"

namespace larder::remote {

// Reply types by their first bytes. An error is always one of them; what is not is a violation.
struct Expect {
  std::string_view types;            // of "+:$*"
  std::size_t payload_bytes = 0;     // not 0: `$` is a payload, received into `target` where it is no longer
  std::span<std::byte> target = {};  // as long as that
  bool long_reply = false;           // of more elements than others
};

// `lost` not ok: no reply came and none will. It may send further commands; it must not destroy or close the connection.
using Then = std::function<void(const Status& lost, Reply reply)>;

// What a command is for.
enum class Lane : std::uint8_t { kReads, kWrites };

struct Request {
  Around around;  // all of the command, or what stands around its body
  std::span<const std::byte> body;
  Expect expect;
  std::uint64_t owner = 0;  // whom cancel() names
  Then then;
  std::optional<Lane> tells = {};  // how the server does with which, where this is answered by an error; nothing: of itself alone
  std::size_t writer = 0;          // which of the connections that write, where it has no body
  bool with_former = false;        // the command before it is for this one: neither is taken back alone
  std::size_t unanswered = 0;      // the connection's own: of its body, once that is sent
};

class Connection {
 public:
  explicit Connection(std::unique_ptr<Stream> stream) : stream_(std::move(stream)), buffer_(kLeastBuffer) {}

  // Hears of each error reply to a request that tells something, before its `then`.
  std::function<void(Lane lane, const Reply& error)> on_error;

  // Never answers before it returns.
  void ask(Request request, std::uint64_t now_ns);

  // Moves what the stream lets, calls back for each answer. Not ok: it is over, to be closed. `more` is set where it stopped
  // although the stream may have more.
  Status pump(std::uint64_t now_ns, bool& more);
  // The stream first, then every command is answered with this.
  void close(const Status& why);

  // Nothing of this owner is answered any more, and none of its memory is touched. False: that takes a close, a body is half sent
  // or a payload half received; `keep`: the rest of such a payload is thrown away instead, as of those that are still to come.
  bool cancel(std::uint64_t owner, bool keep = false);

  Stream& stream() { return *stream_; }
  bool wants_write() const { return stream_->wants_write() || may_send(); }
  bool has_unsent() const { return may_send() && !send_blocked_; }
  std::size_t commands() const { return entries_.size(); }
  std::uint64_t bytes() const { return outstanding_bytes_; }  // bodies and payloads that are not answered
  // Since when the oldest command waits for its answer; UINT64_MAX: none does.
  std::uint64_t waiting_since_ns() const { return entries_.empty() ? UINT64_MAX : head_since_ns_; }
  std::uint64_t sent_bytes = 0, received_bytes = 0, answers = 0;

 private:
  static constexpr std::size_t kLeastBuffer = 16 << 10, kMostKept = 1 << 20;
  static constexpr std::size_t kMostSegments = 60;
  static constexpr std::size_t kSmallBody = 256 << 10;  // is not held back: see send_window_
  static constexpr std::size_t kBesidePayload =
      256;  // read at once where a payload may begin: what of it lands in the buffer is copied
  static constexpr std::uint64_t kMostPayload = 16 << 20;  // of one that is too long and thrown away; more ends the connection
  static constexpr std::uint64_t kMostAtOnce = 8 << 20;    // until others have their turn

  static constexpr std::size_t kMostGathered = kMostSegments + 3;

  Status pump_send();
  std::size_t gather(std::span<std::span<const std::byte>, kMostGathered> segments, std::size_t& wanted);
  bool may_send() const;
  bool lets_body(const Request& request, std::uint64_t unanswered) const;
  std::size_t begun() const;
  void account(std::size_t bytes);
  Status pump_receive(std::uint64_t now_ns, bool& more);
  Status take_buffered(std::uint64_t now_ns);
  Result<bool> begin(std::uint64_t now_ns);
  Result<bool> begin_payload(std::uint64_t now_ns);
  Status refuse_half_sent(Reply error);
  Result<bool> finish_payload(std::uint64_t now_ns);
  void answer(Reply reply, std::uint64_t now_ns);
  std::span<const std::byte> buffered() const { return {buffer_.data() + begin_, end_ - begin_}; }
  std::span<std::byte> payload_room();
  void make_room();

  std::unique_ptr<Stream> stream_;
  std::deque<Request> entries_;  // asked, not answered
  std::size_t sent_ = 0;         // of them, wholly
  std::size_t part_sent_ = 0;    // bytes of the next one
  bool send_blocked_ = false;
  std::size_t payloads_ = 0;  // of the entries
  std::uint64_t outstanding_bytes_ = 0;
  std::uint64_t asked_bytes_ = 0;       // payloads of what was sent
  std::uint64_t unanswered_bytes_ = 0;  // bodies of what was sent
  ReceiveWindow window_;
  // Of bodies. Where the link is short that is one: its length goes ahead, behind the one before, and is read alone; so the server
  // receives the body to where it stays, and copies nothing. Of what lies there together it does, a third of its time. A small one,
  // as ends a chunk, is to be copied: received alone it would get, and keep a corner of, the memory made ready for a long one.
  ReceiveWindow send_window_{0};
  std::uint64_t head_since_ns_ = 0;
  bool head_alone_ = false;  // a small one, to which nothing was before it

  std::vector<std::byte> buffer_;  // what came and is no payload
  std::size_t begin_ = 0, end_ = 0;
  ReplyScanner scanner_;
  ReplyParser parser_;
  bool in_payload_ = false;
  std::size_t payload_bytes_ = 0, payload_got_ = 0;
  std::array<std::byte, 16 << 10> discarded_;  // for payloads that nobody waits for any more
};

}  // namespace larder::remote
