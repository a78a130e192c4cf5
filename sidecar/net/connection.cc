#include "sidecar/net/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace larder::net {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::size_t size_of(const Request& request) {
  return request.around.before.size() + request.body.size() + request.around.after.size();
}

Status violation(const std::string& what) {
  return {Code::kUnavailable, "the server broke the protocol: " + what};
}

}  // namespace

void Connection::ask(Request request, std::uint64_t now_ns) {
  // The round trip is measured on a small command that is alone: behind a payload the time would be
  // that of the payload.
  if (entries_.empty()) {
    head_since_ns_ = now_ns;
    head_alone_ = request.body.empty() && request.expect.payload_bytes == 0;
  }
  outstanding_bytes_ += request.body.size() + request.expect.payload_bytes;
  payloads_ += request.expect.payload_bytes != 0 ? 1 : 0;
  entries_.push_back(std::move(request));
}

Status Connection::pump(std::uint64_t now_ns, bool& more) {
  more = false;
  // A failed send does not end the call: the receiving half may hold the last replies of the
  // server.
  const Status sent = pump_send();
  const std::uint64_t before = received_bytes;
  const Status received = pump_receive(now_ns, more);
  if (sent.ok()) return received;
  // A server that closed the connection may have replied before, or sent the reason: in TLS an
  // alert, which counts no byte.
  return received.ok() || received_bytes != before ? sent : received;
}

Status Connection::pump_send() {
  send_blocked_ = false;
  while (sent_ < entries_.size()) {
    std::array<std::span<const std::byte>, kMostGathered> segments;
    std::size_t wanted = 0;
    const std::size_t count = gather(segments, wanted);
    if (count == 0) break;
    const Moved moved = stream_->send(std::span(segments).first(count));
    account(moved.bytes);
    if (!moved.status.ok()) return moved.status;
    send_blocked_ = moved.bytes < wanted;
    if (send_blocked_) break;
  }
  return {};
}

// The next segments to send, within the windows.
std::size_t Connection::gather(std::span<std::span<const std::byte>, kMostGathered> segments,
                               std::size_t& wanted) {
  // Bytes held by the stream count as sent: they are inside a TLS record already, and nothing can
  // take them back.
  const std::size_t taken = part_sent_ + stream_->held();
  std::size_t count = 0, skip = part_sent_,
              at = 0;  // at: start of the command, counted from the first unsent command
  std::uint64_t asked = asked_bytes_, unanswered = unanswered_bytes_;
  for (std::size_t i = sent_; i < entries_.size() && count < kMostSegments; ++i) {
    const Request& entry = entries_[i];
    const std::size_t payload = entry.expect.payload_bytes;
    // Only a command without a sent byte may wait. The rest of a begun command follows, whatever
    // the window says.
    if (at >= taken && payload != 0 && !window_.lets(asked, payload)) {  // mutation: window-asks
      window_.held_back();
      break;
    }
    // A held body still sends its length ahead (see send_window_): the server reads the length
    // alone, and then receives the body without a copy.
    const bool body_begun = at + entry.around.before.size() < taken;
    const bool held = !body_begun && !lets_body(entry, unanswered);  // mutation: body-waits
    const std::span<const std::byte> all[] = {bytes_of(entry.around.before), entry.body,
                                              bytes_of(entry.around.after)};
    for (const std::span<const std::byte> segment :
         std::span(all).first(held ? 1 : 3)) {  // mutation: body-length-first
      const std::size_t skipped = std::min(skip, segment.size());
      skip -= skipped;
      if (segment.size() == skipped) continue;
      segments[count++] = segment.subspan(skipped);
      wanted += segment.size() - skipped;
    }
    if (held) {
      send_window_.held_back();
      break;
    }
    asked += payload;
    unanswered += entry.body.size();
    at += size_of(entry);
  }
  return count;
}

void Connection::account(std::size_t bytes) {
  sent_bytes += bytes;
  part_sent_ += bytes;
  // The command's text and body are let go here. From now on the connection refers to the reply's
  // target alone.
  while (sent_ < entries_.size() && part_sent_ >= size_of(entries_[sent_])) {
    Request& whole = entries_[sent_++];
    part_sent_ -= size_of(whole);
    whole.unanswered = whole.body.size();
    unanswered_bytes_ += whole.unanswered;
    asked_bytes_ += whole.expect.payload_bytes;
    whole.around = {};  // may hold a password
    whole.body = {};
  }
}

Status Connection::pump_receive(std::uint64_t now_ns, bool& more) {
  for (std::uint64_t received = 0; received < kMostAtOnce;) {
    make_room();
    const std::span<std::byte> payload = payload_room();
    // A payload goes straight into the slot. Only bytes that arrive together with its length are
    // copied, so the read is short while a payload is expected.
    const std::size_t limit = payloads_ != 0 ? kBesidePayload : buffer_.size();
    const std::span<std::byte> room =
        std::span(buffer_).subspan(end_, std::min(limit, buffer_.size() - end_));
    // The rest of a discarded payload may be larger than discarded_: then read only payload bytes.
    const bool all_of_it = !in_payload_ || payload.size() == payload_bytes_ - payload_got_;
    const std::span<std::byte> beside = all_of_it ? room : std::span<std::byte>();
    const Moved moved = stream_->receive(payload, beside);
    received += moved.bytes;
    received_bytes += moved.bytes;
    // The stream fills the payload first, then the buffer: a reply behind the payload starts in the
    // buffer.
    const std::size_t into_payload = std::min(moved.bytes, payload.size());
    payload_got_ += into_payload;
    end_ += moved.bytes - into_payload;
    if (Status status = take_buffered(now_ns); !status.ok()) return status;
    if (!moved.status.ok()) return moved.status;
    if (moved.bytes < payload.size() + beside.size()) return {};
    // Sends commands that the window allows now, before the rest is received, so that the server
    // does not idle. The next call reports the error.
    if (has_unsent() && !pump_send().ok()) break;  // mutation: window-early
  }
  more = true;
  return {};
}

// The memory for the rest of the current payload.
std::span<std::byte> Connection::payload_room() {
  if (!in_payload_) return {};
  const std::size_t left = payload_bytes_ - payload_got_;
  const std::span<std::byte> target = entries_.front().expect.target;
  if (!target.empty()) return target.subspan(payload_got_, left);
  return std::span(discarded_).first(std::min(left, discarded_.size()));
}

void Connection::make_room() {
  if (begin_ == end_) begin_ = end_ = 0;
  // One long reply leaves a large buffer. An idle connection gives the memory back.
  if (end_ == 0 && buffer_.size() > kMostKept) buffer_ = std::vector<std::byte>(kLeastBuffer);
  if (buffer_.size() - end_ >= kLeastBuffer / 2) return;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  // The scanner refuses a reply that grows too long.
  if (buffer_.size() - end_ < kLeastBuffer / 2) buffer_.resize(2 * buffer_.size());
}

Status Connection::take_buffered(std::uint64_t now_ns) {
  for (bool going = true; going;) {
    const Result<bool> taken = in_payload_ ? finish_payload(now_ns) : begin(now_ns);
    if (!taken.ok()) return taken.status();
    going = *taken;
  }
  return {};
}

// The buffer starts with a reply. False: more bytes are needed.
Result<bool> Connection::begin(std::uint64_t now_ns) {
  if (begin_ == end_) return false;
  // An error ('-') is allowed at any place of a reply; a server may refuse a command that is half
  // sent.
  const char type = static_cast<char>(buffer_[begin_]);
  const bool half_sent = sent_ == 0 && part_sent_ + stream_->held() != 0;
  // A reply without a command means that both sides count differently. The next reply would be
  // taken for an answer to the wrong command, and its bytes for another chunk.
  if (sent_ == 0 && (!half_sent || type != '-')) return violation("a reply without a request");
  const Expect& expect = entries_.front().expect;
  if (type != '-' && expect.types.find(type) == std::string_view::npos)
    return violation("a reply of the wrong type");
  // Payloads bypass scanner and hiredis, which would copy them.
  if (type == '$' && expect.payload_bytes != 0) return begin_payload(now_ns);
  scanner_.let_long(expect.long_reply);
  switch (scanner_.scan(buffered())) {
    case ReplyScanner::Found::kPart: return false;
    case ReplyScanner::Found::kWrong: return violation(scanner_.wrong());
    case ReplyScanner::Found::kWhole: break;
  }
  const std::size_t bytes = scanner_.bytes();
  scanner_.reset();
  Result<Reply> reply = parser_.parse(buffered().first(bytes));
  if (!reply.ok()) return violation(reply.status().text());
  begin_ += bytes;
  if (half_sent) return refuse_half_sent(*std::move(reply));
  answer(*std::move(reply), now_ns);
  return true;
}

// An error reply to a partly sent command: the announced length of a value was too large. The
// server reads no further.
Status Connection::refuse_half_sent(Reply error) {
  const Request request = std::move(entries_.front());
  entries_.pop_front();
  part_sent_ = 0;
  outstanding_bytes_ -= request.body.size() + request.expect.payload_bytes;
  payloads_ -= request.expect.payload_bytes != 0 ? 1 : 0;
  ++answers;
  if (request.tells && on_error) on_error(*request.tells, error);
  if (request.then) request.then({}, std::move(error));
  return {Code::kUnavailable, "the server refused a command before it was sent"};
}

Result<bool> Connection::begin_payload(std::uint64_t now_ns) {
  Expect& expect = entries_.front().expect;
  // "$", 20 digits at most, and the end of the line. Without the bound a line without an end grows
  // the buffer.
  constexpr std::size_t kMostLine = 24;
  const std::string_view text(reinterpret_cast<const char*>(buffer_.data()) + begin_,
                              end_ - begin_);
  const std::size_t end = text.find("\r\n");
  if (end == std::string_view::npos) {
    if (text.size() >= kMostLine) return violation("a length that does not end");
    return false;
  }
  const Result<std::int64_t> length = parse_length(text.substr(1, end - 1));
  if (!length.ok()) return violation(length.status().text());
  begin_ += end + 2;
  // "$-1": the key has no value. The target stays untouched.
  if (*length < 0) {
    answer({}, now_ns);
    return true;
  }
  if (static_cast<std::uint64_t>(*length) > kMostPayload)
    return violation("a payload that is too long");
  if (static_cast<std::uint64_t>(*length) > expect.payload_bytes)
    // The caller learns the true length from the reply and judges it. The connection goes on, since
    // the length tells where the next reply starts.
    expect.target = {};  // discarded: too long for the target
  in_payload_ = true;
  payload_bytes_ = static_cast<std::size_t>(*length);
  payload_got_ = 0;
  return true;
}

Result<bool> Connection::finish_payload(std::uint64_t now_ns) {
  while (payload_got_ < payload_bytes_ && begin_ != end_) {
    const std::span<std::byte> room = payload_room();
    const std::size_t bytes = std::min(room.size(), end_ - begin_);
    std::memcpy(room.data(), buffer_.data() + begin_, bytes);
    begin_ += bytes;
    payload_got_ += bytes;
  }
  if (payload_got_ < payload_bytes_ || end_ - begin_ < 2) return false;
  // The end after the announced bytes is the last check of the framing. Content is verified by the
  // digest.
  if (buffer_[begin_] != std::byte{'\r'} || buffer_[begin_ + 1] != std::byte{'\n'})
    return violation("a payload without its end");
  begin_ += 2;
  in_payload_ = false;
  Reply reply;
  reply.kind = Reply::Kind::kPayload;
  reply.integer = static_cast<std::int64_t>(payload_bytes_);
  answer(std::move(reply), now_ns);
  return true;
}

void Connection::answer(Reply reply, std::uint64_t now_ns) {
  // The entry leaves before the callback, which may ask further commands.
  const Request request = std::move(entries_.front());
  entries_.pop_front();
  --sent_;
  const std::size_t payload = request.expect.payload_bytes;
  outstanding_bytes_ -= payload + request.unanswered;
  asked_bytes_ -= payload;
  unanswered_bytes_ -= request.unanswered;
  payloads_ -= payload != 0 ? 1 : 0;
  if (payload != 0) window_.came(payload, now_ns, asked_bytes_ == 0);
  if (request.unanswered != 0)
    send_window_.came(request.unanswered, now_ns, unanswered_bytes_ == 0);
  // A command is measured once. The next head waited behind this one and says nothing of the link.
  if (std::exchange(head_alone_, false)) {
    window_.round_trip(now_ns - head_since_ns_);
    send_window_.round_trip(now_ns - head_since_ns_);  // mutation: long-link-bodies
  }
  head_since_ns_ = now_ns;
  ++answers;
  if (reply.kind == Reply::Kind::kError && request.tells && on_error)
    on_error(*request.tells, reply);
  if (request.then) request.then({}, std::move(reply));
}

void Connection::close(const Status& why) {
  // The stream goes first: after this line no byte reaches the targets, so callbacks may free their
  // memory.
  stream_.reset();
  sent_ = part_sent_ = payloads_ = 0;
  outstanding_bytes_ = asked_bytes_ = unanswered_bytes_ = 0;
  in_payload_ = head_alone_ = false;
  // Each command is answered, once. The exchange keeps a callback from seeing commands that are
  // lost.
  for (const Request& request : std::exchange(entries_, {}))
    if (request.then) request.then(why, {});
}

bool Connection::may_send() const {
  if (sent_ == entries_.size()) return false;
  const Request& next = entries_[sent_];
  const std::size_t payload = next.expect.payload_bytes, before = next.around.before.size();
  const std::size_t taken = part_sent_ + stream_->held();
  // The same three conditions as in gather(). A difference would either spin the thread or leave a
  // command unsent.
  if (taken == 0 && payload != 0 && !window_.lets(asked_bytes_, payload)) return false;
  return part_sent_ < before || taken > before ||
         lets_body(next, unanswered_bytes_);  // mutation: body-no-wakeup
}

bool Connection::lets_body(const Request& request, std::uint64_t unanswered) const {
  return request.body.size() <= kSmallBody ||
         send_window_.lets(unanswered, request.body.size());  // mutation: small-body
}

// The number of commands that are wholly or partly sent or held by the stream.
std::size_t Connection::begun() const {
  const std::size_t taken = part_sent_ + stream_->held();
  std::size_t count = sent_;
  for (std::size_t at = 0; count < entries_.size() && at < taken; ++count)
    at += size_of(entries_[count]);
  // A sent first command of a pair would apply to the next command if the second were taken back.
  return count + (count < entries_.size() && entries_[count].with_former
                      ? 1
                      : 0);  // mutation: command-not-alone
}

bool Connection::cancel(std::uint64_t owner, bool keep) {
  const auto of_owner = [owner](const Request& request) { return request.owner == owner; };
  // The first part of the payload is in the target. Only the end of the connection stops the rest,
  // unless the rest may be discarded.
  if (!keep && in_payload_ && of_owner(entries_.front())) return false;
  const std::size_t begun = this->begun();
  for (std::size_t i = sent_; i < begun; ++i)
    // A body that is partly sent still reads from the owner's memory, and the server waits for the
    // announced bytes.
    if (of_owner(entries_[i]) && !entries_[i].body.empty()) return false;
  for (std::size_t i = 0; i < begun; ++i) {
    if (!of_owner(entries_[i])) continue;
    // Sent commands stay in the queue: their replies will come, and keep the order of the others.
    entries_[i].then = nullptr;
    entries_[i].expect.target = {};
  }
  for (std::size_t i = begun; i < entries_.size();) {
    if (!of_owner(entries_[i])) {
      ++i;
      continue;
    }
    outstanding_bytes_ -= entries_[i].body.size() + entries_[i].expect.payload_bytes;
    payloads_ -= entries_[i].expect.payload_bytes != 0 ? 1 : 0;
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

}  // namespace larder::net
