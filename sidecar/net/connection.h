// Connection: commands in, replies out, over one Stream. Every reply belongs to exactly one
// command, in the order of the commands. A violation closes the connection, and all commands on the
// connection fail. Owned by one thread.
//
// Bodies are sent from the memory of the caller, and payloads are received into the memory of the
// caller, without a copy. That memory stays valid until the command is answered or cancelled.
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
#include "sidecar/net/receive_window.h"
#include "sidecar/net/resp.h"
#include "sidecar/net/stream.h"

namespace larder::net {

// The allowed types of a reply, by first byte. An error is always allowed; every other type is a
// violation.
struct Expect {
  std::string_view types;  // of "+:$*"
  // Not 0: `$` is a payload of at most this length, received into `target`.
  std::size_t payload_bytes = 0;
  std::span<std::byte> target = {};  // payload_bytes long
  bool long_reply = false;           // the limits for long replies apply (kMaxLongElements)
};

// `lost` not ok: the reply is lost. The callback may send further commands; it must not destroy or
// close the connection.
using Then = std::function<void(const Status& lost, Reply reply)>;

// The purpose of a command.
enum class Lane : std::uint8_t { kReads, kWrites };

struct Request {
  Around around;  // the whole command, or the parts before and after the body
  std::span<const std::byte> body;
  Expect expect;
  std::uint64_t owner = 0;  // for cancel()
  Then then;
  // An error reply tells the health of this lane; empty: of the command only.
  std::optional<Lane> tells = {};
  std::size_t writer = 0;      // a command without a body: the number of the writing connection
  bool with_former = false;    // belongs to the command before: cancel() takes back both or neither
  std::size_t unanswered = 0;  // set by Connection: bytes of a sent body
};

class Connection {
 public:
  explicit Connection(std::unique_ptr<Stream> stream)
      : stream_(std::move(stream)), buffer_(kLeastBuffer) {}

  // Called for each error reply to a request with `tells`, before `then` of that request.
  std::function<void(Lane lane, const Reply& error)> on_error;

  // Calls `then` only after ask() returned.
  void ask(Request request, std::uint64_t now_ns);

  // Sends and receives without waiting, and calls `then` for each reply. Not ok: the caller closes
  // the connection. `more` is set if pump() stopped although the stream may have more bytes.
  Status pump(std::uint64_t now_ns, bool& more);
  // Closes the stream, then answers every command with `why`.
  void close(const Status& why);

  // Afterwards no command of this owner is answered, and no memory of this owner is touched. False:
  // the caller must close the connection, because a body is partly sent or a payload partly
  // received. With `keep`, the rest of such a payload is discarded instead, as are payloads that
  // follow.
  bool cancel(std::uint64_t owner, bool keep = false);

  Stream& stream() { return *stream_; }
  bool wants_write() const { return stream_->wants_write() || may_send(); }
  bool has_unsent() const { return may_send() && !send_blocked_; }
  std::size_t commands() const { return entries_.size(); }
  std::uint64_t bytes() const {
    return outstanding_bytes_;
  }  // bodies and payloads of unanswered commands
  // The time since which the oldest command waits for a reply; UINT64_MAX without a command.
  std::uint64_t waiting_since_ns() const { return entries_.empty() ? UINT64_MAX : head_since_ns_; }
  std::uint64_t sent_bytes = 0, received_bytes = 0, answers = 0;

 private:
  static constexpr std::size_t kLeastBuffer = 16 << 10, kMostKept = 1 << 20;
  static constexpr std::size_t kMostSegments = 60;
  static constexpr std::size_t kSmallBody = 256 << 10;  // never held back: see send_window_
  // Bytes per read before a payload: payload bytes in the buffer are copied.
  static constexpr std::size_t kBesidePayload = 256;
  static constexpr std::uint64_t kMostPayload =
      16 << 20;  // a too long payload is discarded up to here; more is a violation
  static constexpr std::uint64_t kMostAtOnce =
      8 << 20;  // bytes per pump(), so that other connections have their turn

  static constexpr std::size_t kMostGathered = kMostSegments + 3;

  Status pump_send();
  std::size_t gather(std::span<std::span<const std::byte>, kMostGathered> segments,
                     std::size_t& wanted);
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
  std::deque<Request> entries_;  // unanswered
  std::size_t sent_ = 0;         // number of wholly sent entries
  std::size_t part_sent_ = 0;    // sent bytes of the next entry
  bool send_blocked_ = false;
  std::size_t payloads_ = 0;  // entries with a payload
  std::uint64_t outstanding_bytes_ = 0;
  std::uint64_t asked_bytes_ = 0;       // payloads of sent entries
  std::uint64_t unanswered_bytes_ = 0;  // bodies of sent entries
  ReceiveWindow window_;
  // The window for bodies. On a short link the window allows one body at a time. The length of a
  // body is sent ahead, right after the body before, and the server reads that length alone: so the
  // server receives the body into the final memory, without a copy. The server copies bodies that
  // arrive together with other bytes, which costs a third of the server's time. A small body, the
  // last of a chunk, is better copied: received alone, the small body would occupy memory reserved
  // for a long body.
  ReceiveWindow send_window_{0};
  std::uint64_t head_since_ns_ = 0;
  bool head_alone_ = false;  // the oldest command is small, and was asked while no other was open

  std::vector<std::byte> buffer_;  // received bytes outside payloads
  std::size_t begin_ = 0, end_ = 0;
  ReplyScanner scanner_;
  ReplyParser parser_;
  bool in_payload_ = false;
  std::size_t payload_bytes_ = 0, payload_got_ = 0;
  std::array<std::byte, 16 << 10> discarded_;  // for payloads of cancelled commands
};

}  // namespace larder::net
