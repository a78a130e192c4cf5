#include "sidecar/tiers/peer/server_connection.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sidecar/base/time_units.h"

namespace larder::peer {
namespace {

using base::kNsPerMs;
constexpr std::uint64_t kRateWaitNs = 2 * kNsPerMs;
// A system call takes 64 parts (kMostParts of socket_stream.cc).
constexpr std::size_t kMostSegments = 60;
constexpr const char* kNil = "$-1\r\n";

Status over(const char* why) {
  return {Code::kUnavailable, why};
}

// Whether the other side closed the connection, while no byte may be read.
bool closed(int fd) {
  pollfd polled{fd, POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

ServerConnection::ServerConnection(Services& services, std::uint64_t number,
                                   std::unique_ptr<net::Stream> stream, std::string address,
                                   std::uint64_t now_ns)
    : services_(services),
      number_(number),
      address_(std::move(address)),
      stream_(std::move(stream)),
      since_ns_(now_ns),
      moved_ns_(now_ns),
      asked_ns_(now_ns) {}

ServerConnection::~ServerConnection() {
  // The stream may hold a TLS record of the payload. The stream goes first, and only then the holds
  // of the slots that it reads from.
  stream_.reset();
  for (const Piece& piece : out_)
    if (!piece.payload.empty()) holds_->end_send(piece.key);
}

bool ServerConnection::idle() const {
  return out_.empty() && !waiting_ && !unread_ && buffer_.empty() &&
         (!holds_ || holds_->size() == 0);
}

Status ServerConnection::turn(std::uint64_t now_ns) {
  ready = more_ = false;
  if (Status status = check_times(now_ns); !status.ok()) return status;
  if (!established_) {
    const Result<bool> done = stream_->establish();
    if (!done.ok()) return done.status();
    if (!*done) return {};
    established_ = true;
  }
  if (holds_) holds_->expire(now_ns);
  // Reading and sending alternate: a request read now may be answered in the same turn. kMostTaken
  // bounds the turn, so that one peer cannot keep the thread.
  unread_ = true;
  for (std::uint64_t taken = 0; unread_ && taken < kMostTaken; taken += kRead) {
    if (Status status = send(now_ns); !status.ok()) return status;
    if (!may_read()) break;
    if (Status status = take_requests(now_ns); !status.ok()) return status;
    if (!may_read()) break;
    if (Status status = receive(now_ns); !status.ok()) return status;
  }
  // A connection that may not read would notice the close only after its replies. Its holds end
  // here.
  if (!may_read() && closed(fd())) return over("the peer closed the connection");
  return send(now_ns);
}

bool ServerConnection::may_read() const {
  // Replies keep the order of requests, so one request at a time waits for the store. A peer that
  // sends and never receives is read no further at the other two bounds.
  return !waiting_ && replies_ < kMostReplies && out_bytes_ < kMostReplyBytes;
}

Status ServerConnection::check_times(std::uint64_t now_ns) {
  const ServerOptions& options = services_.options;
  if (!greeted() && now_ns >= since_ns_ + options.greet_ms * kNsPerMs)
    return over("no HELLO in time");
  // The own rate limit is no stall of the peer.
  if (out_.empty() || rate_waits_) moved_ns_ = now_ns;
  if (now_ns >= moved_ns_ + options.stall_ms * kNsPerMs) {
    ++services_.counters.stalled;
    return over("the peer receives nothing");
  }
  if (out_.empty() && !waiting_ && now_ns >= asked_ns_ + options.idle_ms * kNsPerMs)
    return over("idle");
  return {};
}

Status ServerConnection::receive(std::uint64_t now_ns) {
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kRead);
  const net::Moved moved = stream_->receive(std::span(buffer_).subspan(before), {});
  buffer_.resize(before + moved.bytes);
  if (moved.bytes != 0) asked_ns_ = now_ns;
  unread_ = moved.bytes == kRead;
  if (Status status = take_requests(now_ns); !status.ok()) return status;
  return moved.status;
}

// The scanner bounds the size of a request.
Status ServerConnection::take_requests(std::uint64_t now_ns) {
  std::size_t begin = 0;
  Status status;
  bool part = false;
  while (begin < buffer_.size() && may_read()) {
    const std::span<const std::byte> rest = std::span(buffer_).subspan(begin);
    // Checked before the scanner: RESP allows other types, and their limits would have to be judged
    // too.
    if (rest.front() != std::byte{'*'}) status = over("a request that is no array");
    if (!status.ok()) break;
    const net::ReplyScanner::Found found = scanner_.scan(rest);
    part = found == net::ReplyScanner::Found::kPart;
    if (part) break;
    if (found == net::ReplyScanner::Found::kWrong) {
      status = over(scanner_.wrong());
      break;
    }
    const Result<net::Reply> words = parser_.parse(rest.first(scanner_.bytes()));
    begin += scanner_.bytes();
    scanner_.reset();
    Result<Request> request = words.ok() ? parse_request(*words) : Result<Request>(words.status());
    if (!words.ok()) status = words.status();
    if (!status.ok()) break;
    // A wrong argument gets an error and the connection goes on, since the framing is intact. A
    // framing fault above closes it.
    if (request.ok())
      serve(*std::move(request), now_ns);
    else
      push(error_reply("ERR " + request.status().text()));
  }
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin));
  // Whole requests in the buffer need a turn without a new event. Half a request needs bytes, and a
  // turn for it would spin.
  unparsed_ = !buffer_.empty() && !part;
  services_.counters.broken += status.ok() ? 0 : 1;
  return status;
}

void ServerConnection::serve(Request request, std::uint64_t now_ns) {
  if (request.kind == Request::Kind::kPing) return push("+PONG\r\n");
  if (request.kind == Request::Kind::kHello) return serve_hello(request);
  if (!greeted())
    return push(error_reply("NOHELLO say HELLO first"));  // mutation: peer-hello-first
  switch (request.kind) {
    case Request::Kind::kLook:
      ++services_.counters.probes;
      services_.counters.keys += request.keys.size();
      return ask_store(std::move(request), now_ns);
    case Request::Kind::kGet: return serve_get(request, now_ns);
    case Request::Kind::kDone:
      for (const tiers::ChunkKey& key : request.keys) holds_->done(key);
      return push("+OK\r\n");
    case Request::Kind::kPing:
    case Request::Kind::kHello: break;
  }
}

void ServerConnection::serve_hello(const Request& request) {
  const Instance& self = services_.options.self;
  const std::optional<std::uint32_t> protocol = common_protocol(request.protocol);
  if (!protocol)
    return push(error_reply("NOPROTO this larderd speaks protocol " +
                            std::to_string(kOldestProtocol) + " to " + std::to_string(kProtocol)));
  // Holds belong to address and INSTANCE. A connection that changed INSTANCE would leave its sends
  // with the holds of another peer.
  if (greeted() && *other_ != request.other) return push(error_reply("ERR a second HELLO"));
  if (request.other.pool != self.pool) {  // mutation: peer-one-pool
    ++services_.counters.refused;
    return push(error_reply("WRONGPOOL this larderd is of another pool"));
  }
  other_ = request.other;
  // With the address in the name, a stranger who learned an INSTANCE shares no holds and ends none.
  holds_ = services_.holds.of(address_ + " " + request.other.id);
  push(hello_reply(self, *protocol));
}

void ServerConnection::serve_get(const Request& request, std::uint64_t now_ns) {
  if (request.offset == 0) ++services_.counters.gets;
  // The generation tells a replaced chunk from the one that LOOK named: bytes of two chunks never
  // mix in one slot.
  if (const HeldChunk* chunk = holds_->find(request.keys.front(), request.generation);
      chunk != nullptr)
    return push_payload(request, *chunk, now_ns);
  ask_store(request, now_ns);
}

// A busy store has nothing. The store answers from its memory alone: an asked larderd asks no other
// larderd.
void ServerConnection::ask_store(Request request, std::uint64_t now_ns) {
  const bool read = request.kind == Request::Kind::kGet;
  const bool asked =
      services_.exchange.ask({number_, request.keys, read || request.hold_ms != 0, read});
  waiting_ = std::move(request);
  if (!asked) answer({number_, {}}, now_ns);
}

void ServerConnection::answer(HoldReply reply, std::uint64_t now_ns) {
  if (!waiting_) return;
  const Request request = *std::exchange(waiting_, std::nullopt);
  const bool look = request.kind == Request::Kind::kLook;
  const std::uint64_t until_ns = now_ns + (look ? request.hold_ms * kNsPerMs : kSendHoldNs);
  std::vector<std::optional<tiers::ChunkFacts>> facts(request.keys.size());
  for (std::size_t i = 0; i < request.keys.size() && i < reply.chunks.size(); ++i) {
    if (!reply.chunks[i]) continue;
    facts[i] = reply.chunks[i]->facts;
    if (reply.chunks[i]->held) holds_->add(request.keys[i], *reply.chunks[i], until_ns);
  }
  if (look) {
    services_.counters.keys_found += static_cast<std::uint64_t>(
        std::ranges::count_if(facts, [](const auto& one) { return one.has_value(); }));
    return push(look_reply(facts));
  }
  if (const HeldChunk* chunk = holds_->find(request.keys.front(), request.generation);
      chunk != nullptr)
    return push_payload(request, *chunk, now_ns);
  ++services_.counters.gets_missed;
  push(kNil);
}

void ServerConnection::push(std::string text) {
  out_bytes_ += text.size();
  ++replies_;
  out_.push_back({.text = std::move(text), .reply_ends = true});
}

void ServerConnection::push_payload(const Request& get, const HeldChunk& chunk,
                                    std::uint64_t now_ns) {
  // Subtraction, because offset + length of a hostile request may overflow.
  if (get.offset >= chunk.slot.size() || get.length > chunk.slot.size() - get.offset)
    return push(kNil);
  const tiers::ChunkKey& key = get.keys.front();
  const std::span<const std::byte> payload = chunk.slot.subspan(get.offset, get.length);
  const bool last = get.offset + get.length == chunk.slot.size();
  holds_->begin_send(key);  // mutation: peer-hold-sending
  // A read ends with the last bytes of the slot: the hold ends once they are sent.
  last ? holds_->done(key) : holds_->extend(key, now_ns + kSendHoldNs);
  std::string head = "$" + std::to_string(payload.size()) + "\r\n";
  out_bytes_ += head.size() + payload.size();
  out_.push_back({.text = std::move(head)});
  out_.push_back({.payload = payload, .key = key});
  push("\r\n");
}

Status ServerConnection::send(std::uint64_t now_ns) {
  rate_waits_ = false;
  for (std::uint64_t moved_bytes = 0; !out_.empty() && moved_bytes < kMostAtOnce;) {
    // The rate bounds payloads. Short replies pass, so that probes stay quick beside limited reads.
    if (!out_.front().payload.empty() && !services_.budget.any(now_ns)) {
      rate_waits_ = true;
      return {};
    }
    std::array<std::span<const std::byte>, kMostSegments> segments;
    std::size_t count = 0, wanted = 0, skip = part_sent_;
    const std::size_t most =
        // OpenSSL must get the bytes of an unfinished record again in full (SSL_write's rule),
        // whatever the rate.
        services_.budget.limited() ? std::max(kRateSlice, stream_->held()) : SIZE_MAX;
    for (auto piece = out_.begin(); piece != out_.end() && count < segments.size() && wanted < most;
         ++piece) {
      const std::span<const std::byte> all =
          piece->payload.empty() ? std::as_bytes(std::span(piece->text.data(), piece->text.size()))
                                 : piece->payload;
      const std::span<const std::byte> rest = all.subspan(std::exchange(skip, 0));
      segments[count] = rest.first(std::min(rest.size(), most - wanted));
      wanted += segments[count++].size();
    }
    const net::Moved moved = stream_->send(std::span(segments).first(count));
    if (moved.bytes != 0) moved_ns_ = now_ns;
    moved_bytes += moved.bytes;
    services_.budget.spend(moved.bytes);
    account(moved.bytes);
    if (!moved.status.ok()) return moved.status;
    // The socket is full. The poller reports the room.
    if (moved.bytes < wanted) return {};
  }
  more_ = !out_.empty();
  return {};
}

void ServerConnection::account(std::size_t bytes) {
  part_sent_ += bytes;
  while (!out_.empty() && part_sent_ >= out_.front().size()) {
    const Piece& piece = out_.front();
    part_sent_ -= piece.size();
    out_bytes_ -= piece.size();
    if (!piece.payload.empty()) {
      holds_->end_send(piece.key);
      services_.counters.sent_bytes += piece.payload.size();
    }
    replies_ -= piece.reply_ends ? 1 : 0;
    out_.pop_front();
  }
}

std::uint32_t ServerConnection::events() const {
  if (!established_) return EPOLLIN | (stream_->wants_write() ? EPOLLOUT : 0U);
  return EPOLLRDHUP | (may_read() ? EPOLLIN : 0U) |
         (!out_.empty() && !rate_waits_ && stream_->wants_write() ? EPOLLOUT : 0U);
}

std::uint64_t ServerConnection::next_ns() const {
  if (more_ || ((unparsed_ || unread_) && may_read())) return 0;
  const ServerOptions& options = services_.options;
  std::uint64_t next = holds_ ? holds_->next_ns() : UINT64_MAX;
  if (!greeted()) next = std::min(next, since_ns_ + options.greet_ms * kNsPerMs);
  if (rate_waits_) next = std::min(next, moved_ns_ + kRateWaitNs);
  if (!out_.empty()) next = std::min(next, moved_ns_ + options.stall_ms * kNsPerMs);
  // As check_times() has it: a connection that sends or waits is not idle, however long ago it
  // asked. A time in the past would keep the thread turning.
  return out_.empty() && !waiting_ ? std::min(next, asked_ns_ + options.idle_ms * kNsPerMs) : next;
}

}  // namespace larder::peer
