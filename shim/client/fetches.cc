#include "shim/client/fetches.h"

#include <algorithm>

#include "shim/protocol/codec.h"

namespace larder::client {
namespace {

std::uint32_t microseconds(std::chrono::steady_clock::duration time) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

Status check(const std::shared_ptr<Attachment>& attachment, const Hashes& hashes, std::uint32_t deadline_ms) {
  if (!attachment) return {Code::kUnavailable, "not attached to larderd"};
  if (!attachment->below().valid()) return {Code::kUnsupported, "this larderd has nothing below its memory"};
  if (hashes.count == 0 || deadline_ms == 0) return {Code::kInvalidArgument, "a fetch needs hashes and a deadline"};
  if (attachment->namespace_handle(hashes.ns) == Attachment::kNoHandle)
    return {Code::kUnavailable, "larderd has not opened the namespace yet"};
  return {};
}

}  // namespace

// Registered before it is sent: the answer may be faster than this thread.
Result<std::uint64_t> Fetches::start(const std::shared_ptr<Attachment>& attachment, const Hashes& hashes,
                                     std::uint32_t deadline_ms) {
  if (Status status = check(attachment, hashes, deadline_ms); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  if (fetches_.size() == protocol::kMaxFetches) return Status(Code::kResourceExhausted, "too many fetches are not ended yet");
  do ++last_request_;
  while (last_request_ == 0 || fetches_.contains(last_request_));
  const std::uint32_t request = last_request_;
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(hashes.count, protocol::kMaxKeysPerFetch));
  protocol::Encoder message(protocol::MessageType::kFetch, request);
  message.append(protocol::Fetch{attachment->namespace_handle(hashes.ns), deadline_ms, count, 0});
  for (std::size_t i = 0; i < count; ++i) message.append(hashes.at(i));
  const Clock::time_point now = Clock::now();
  fetches_.emplace(request,
                   Fetch{attachment, now, now + std::chrono::milliseconds(deadline_ms) + kAnswerGrace, count, FetchState()});
  if (attachment->outbox().send(message.packet())) return std::uint64_t{request};
  fetches_.erase(request);
  return Status(Code::kUnavailable, "larderd went away");
}

Result<FetchState> Fetches::poll(std::uint64_t ticket, std::uint32_t wait_ms) {
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(wait_ms);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto at = fetches_.find(ticket);  // anew each time: another thread may have ended it meanwhile
    if (at == fetches_.end()) return Status(Code::kNotFound, "no such fetch");
    Fetch& fetch = at->second;
    if (fetch.state.running && Clock::now() >= fetch.ends_at) end_late(fetch);
    if (!fetch.state.running || Clock::now() >= until) return fetch.state;
    ended_.wait_until(lock, std::min(until, fetch.ends_at));
  }
}

// What came up all the same is found by the look-up that follows, but larderd keeps none of it for this fetch.
void Fetches::end_late(Fetch& fetch) const {
  fetch.state.running = false;
  fetch.state.reason = protocol::FetchEnd::kLate;
  fetch.state.elapsed_us = microseconds(Clock::now() - fetch.started);
}

void Fetches::end(std::uint64_t ticket) {
  std::shared_ptr<Attachment> attachment;
  {
    const std::lock_guard lock(mutex_);
    const auto at = fetches_.find(ticket);
    if (at == fetches_.end()) return;
    attachment = std::move(at->second.attachment);
    fetches_.erase(at);
    ended_.notify_all();
  }
  if (!attachment) return;
  protocol::Encoder message(protocol::MessageType::kFetchEnd, 0);
  message.append(protocol::EndFetch{static_cast<std::uint32_t>(ticket), 0});
  attachment->outbox().send(message.packet());
}

// Of the session that was asked, since an answer of another names another fetch; more chunks than were asked are hostile.
void Fetches::fetched(const std::shared_ptr<Attachment>& attachment, std::uint32_t request, const protocol::Fetched& fetched) {
  const std::lock_guard lock(mutex_);
  const auto at = fetches_.find(request);
  if (at == fetches_.end() || at->second.attachment != attachment || !at->second.state.running) return;
  at->second.state = {false, std::min<std::uint64_t>(fetched.families, at->second.asked),
                      static_cast<protocol::FetchEnd>(fetched.reason), fetched.bytes, fetched.elapsed_us};
  ended_.notify_all();
}

void Fetches::lost(const std::shared_ptr<Attachment>& attachment) {
  const std::lock_guard lock(mutex_);
  for (auto& [ticket, fetch] : fetches_) {
    if (fetch.attachment != attachment) continue;
    fetch.attachment.reset();
    if (!fetch.state.running) continue;
    fetch.state.running = false;
    fetch.state.reason = protocol::FetchEnd::kFailed;
  }
  ended_.notify_all();
}

}  // namespace larder::client
