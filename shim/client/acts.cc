#include "shim/client/acts.h"

#include <algorithm>
#include <chrono>

#include "shim/protocol/codec.h"

namespace larder::client {

Result<protocol::ActCounts> Acts::run(const std::shared_ptr<Attachment>& attachment,
                                      protocol::Verb verb, const Hashes& hashes,
                                      std::uint32_t wait_ms, std::uint32_t keep_s) {
  if (!attachment) return Status(Code::kUnavailable, "not attached to larderd");
  if ((attachment->welcome().capabilities & protocol::kCapabilityAct) == 0)
    return Status(Code::kUnsupported, "this larderd is older than prefetch, pin, unpin and evict");
  // Checked before the first message, so no part of the work is done for a call that fails.
  if (hashes.count > kMaxWaiting * protocol::kMaxKeysPerAct)
    return Status(
        Code::kOutOfRange,
        "at most " + std::to_string(kMaxWaiting * protocol::kMaxKeysPerAct) + " hashes at once");
  const std::uint32_t handle = attachment->namespace_handle(hashes.ns);
  if (handle == Attachment::kNoHandle)
    return Status(Code::kUnavailable,
                  "larderd has not opened the namespace yet, or the namespace is closed");
  const auto call = std::make_shared<Call>();
  call->attachment = attachment;
  // A larderd before protocol 1.7 ends the session of a client that sends a verb it does not know.
  const bool knows_last = attachment->welcome().version_minor >= 7;  // mutation: prefetch-last-old
  const bool knows_demote = attachment->welcome().version_minor >= 10;  // mutation: demote-old
  if (verb == protocol::Verb::kDemote && !knows_demote)
    return Status(Code::kUnsupported, "this larderd is older than demote");
  const bool knows_keep = attachment->welcome().version_minor >= 11;  // mutation: keep-old
  if (verb == protocol::Verb::kKeep && !knows_keep)
    return Status(Code::kUnsupported, "this larderd is older than keep");
  if (verb == protocol::Verb::kPrefetchLast && !knows_last) verb = protocol::Verb::kPrefetch;
  std::unique_lock lock(mutex_);
  if (Status sent = send(call, verb, handle, hashes, keep_s); !sent.ok()) return sent;
  // An engine's step never waits. The answer comes later, and no caller reads the counts.
  if (wait_ms == 0) return protocol::ActCounts{};
  const bool done = answered_.wait_for(lock, std::chrono::milliseconds(wait_ms),
                                       [&] { return call->unanswered == 0; });
  if (!done) return Status(Code::kDeadlineExceeded, "larderd did not answer in time");
  if (call->lost) return Status(Code::kUnavailable, "larderd went away");
  return call->counts;
}

// A call is registered before the message is sent, because the answer can arrive before send()
// returns. REQUIRES: mutex_ is held.
Status Acts::send(const std::shared_ptr<Call>& call, protocol::Verb verb, std::uint32_t handle,
                  const Hashes& hashes, std::uint32_t keep_s) {
  // Each message for the last hash would have a last hash of its own, so one message alone is sent.
  const bool last = verb == protocol::Verb::kPrefetchLast &&
                    hashes.count > protocol::kMaxKeysPerAct;  // mutation: one-last
  const std::size_t first = last ? hashes.count - protocol::kMaxKeysPerAct : 0;
  call->counts.absent += first;
  const std::size_t messages =
      (hashes.count - first + protocol::kMaxKeysPerAct - 1) / protocol::kMaxKeysPerAct;
  if (waiting_.size() + messages > kMaxWaiting)
    return {Code::kResourceExhausted, "too many calls wait for larderd's answer"};
  for (std::size_t at = first; at < hashes.count; at += protocol::kMaxKeysPerAct) {
    const std::size_t count = std::min<std::size_t>(hashes.count - at, protocol::kMaxKeysPerAct);
    const std::uint32_t request = ++last_request_;
    protocol::Encoder message(protocol::MessageType::kAct, request);
    message.append(protocol::Act{handle, static_cast<std::uint32_t>(verb),
                                 static_cast<std::uint32_t>(count), keep_s});
    for (std::size_t i = 0; i < count; ++i) message.append(hashes.at(at + i));
    waiting_.emplace(request, call);
    ++call->unanswered;
    if (call->attachment->outbox().send(message.packet())) continue;
    // All messages of the call: the session of the earlier ones is lost too.
    std::erase_if(waiting_, [&](const auto& entry) { return entry.second == call; });
    return {Code::kUnavailable, "larderd went away"};
  }
  return {};
}

void Acts::acted(std::uint32_t request, const protocol::Acted& acted) {
  const std::lock_guard lock(mutex_);
  const auto at = waiting_.find(request);
  if (at == waiting_.end()) return;
  Call& call = *at->second;
  // larderd answers each message by itself; the caller sees one sum.
  call.counts += {acted.found, acted.absent, acted.refused};
  --call.unanswered;
  waiting_.erase(at);
  answered_.notify_all();
}

void Acts::lost(const std::shared_ptr<Attachment>& attachment) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](const auto& entry) {
    if (entry.second->attachment != attachment) return false;
    entry.second->lost = true;
    --entry.second->unanswered;
    return true;
  });
  answered_.notify_all();
}

}  // namespace larder::client
