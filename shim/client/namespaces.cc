#include "shim/client/namespaces.h"

#include <chrono>

#include "shim/protocol/test_point.h"

namespace larder::client {
namespace {

// Numbers of requests that ask for no keys: the kind, which namespace, and how often was dropped. Stores keeps below them.
constexpr std::uint32_t kFenceRequest = 1U << 31;
constexpr std::uint32_t kOpenRequest = 1U << 30;
constexpr std::uint32_t kDropBits = 22;
static_assert(protocol::kMaxClientNamespaces <= 1U << (30 - kDropBits));

std::uint32_t fence_request(std::uint32_t ns, std::uint32_t drops) {
  return kFenceRequest | (ns << kDropBits) | (drops & ((1U << kDropBits) - 1));
}

}  // namespace

protocol::Encoder open_namespace_message(const NamespaceSpec& spec, const std::string& fingerprint, const std::string& model,
                                         std::uint32_t request) {
  protocol::OpenNamespace open{};
  open.id = protocol::namespace_id(fingerprint);
  open.group_count = static_cast<std::uint32_t>(spec.groups.size());
  open.shard_count = spec.shard_count;
  open.chunk_tokens = spec.chunk_tokens;
  open.text_bytes = static_cast<std::uint32_t>(fingerprint.size());
  open.model = protocol::make_short_text(model);
  protocol::Encoder message(protocol::MessageType::kOpenNamespace, request);
  message.append(open);
  for (const Group& group : spec.groups)
    message.append(protocol::GroupLayout{group.piece_bytes, static_cast<std::uint32_t>(group.pieces()), 0});
  message.append_text(fingerprint);
  return message.append(protocol::NamespaceShards{spec.layout_shard, 0});
}

Result<std::uint32_t> Namespaces::add(const std::string& fingerprint, const std::string& model) {
  std::shared_ptr<Attachment> newest;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  if (fingerprint == spec_.fingerprint) return 0U;
  for (std::size_t i = 0; i < added_.size(); ++i)
    if (added_[i].fingerprint == fingerprint) return static_cast<std::uint32_t>(i + 1);
  if (added_.size() + 1 == protocol::kMaxClientNamespaces)
    return Status(Code::kResourceExhausted,
                  "all " + std::to_string(protocol::kMaxClientNamespaces) + " namespaces of this client are taken");
  added_.push_back({fingerprint, model, protocol::namespace_id(fingerprint)});
  const auto ns = static_cast<std::uint32_t>(added_.size());
  drop_pending_[ns] = drops_ != 0;  // an earlier process may have stored in it what a drop was meant for
  newest = newest_.lock();
  if (newest) send_open(*newest, ns);
  return ns;
}

protocol::NamespaceId Namespaces::id(std::uint32_t ns) const {
  const std::lock_guard lock(mutex_);
  return ns == 0 || ns > added_.size() ? spec_.id : added_[ns - 1].id;
}

bool Namespaces::wait_open(const Attachment& attachment, std::uint32_t ns, std::uint32_t timeout_ms) {
  std::unique_lock lock(mutex_);
  return opened_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                          [&] { return attachment.namespace_handle(ns) != Attachment::kNoHandle && !drop_pending(ns); });
}

void Namespaces::drop_all() {
  std::shared_ptr<Attachment> newest;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  newest = newest_.lock();
  ++drops_;
  for (std::uint32_t ns = 0; ns <= added_.size(); ++ns) {
    drop_pending_[ns] = true;
    if (newest) send_drop(*newest, ns);
  }
}

void Namespaces::attached(const std::shared_ptr<Attachment>& attachment) {
  const std::lock_guard lock(mutex_);
  newest_ = attachment;
  if (drop_pending_[0]) send_drop(*attachment, 0);
  for (std::uint32_t ns = 1; ns <= added_.size(); ++ns) send_open(*attachment, ns);
}

void Namespaces::opened(Attachment& attachment, std::uint32_t request, std::uint32_t handle) {
  const std::uint32_t ns = request & ~kOpenRequest;
  const std::lock_guard lock(mutex_);
  if ((request & kOpenRequest) == 0 || ns == 0 || ns > added_.size()) return;
  attachment.set_namespace_handle(ns, handle);
  if (drop_pending_[ns]) send_drop(attachment, ns);
  opened_.notify_all();
}

bool Namespaces::fence_passed(std::uint32_t request) {
  if ((request & kFenceRequest) == 0) return false;
  const std::lock_guard lock(mutex_);
  const std::uint32_t ns = (request & ~kFenceRequest) >> kDropBits;
  if (ns <= added_.size() && request == fence_request(ns, drops_)) drop_pending_[ns] = false;
  opened_.notify_all();
  return true;
}

void Namespaces::send_open(Attachment& attachment, std::uint32_t ns) {
  const Name& name = added_[ns - 1];
  attachment.outbox().send(open_namespace_message(spec_, name.fingerprint, name.model, kOpenRequest | ns).packet());
}

// Messages are handled in order: the answer to an empty RESERVE tells that the drop before it is done.
void Namespaces::send_drop(Attachment& attachment, std::uint32_t ns) {
  const std::uint32_t handle = attachment.namespace_handle(ns);
  if (handle == Attachment::kNoHandle) return;  // opened() sends it
  protocol::Encoder drop(protocol::MessageType::kDropNamespace, 0);
  drop.append(protocol::DropNamespace{handle, 0});
  protocol::Encoder fence(protocol::MessageType::kReserve, fence_request(ns, drops_));
  fence.append(protocol::Reserve{handle, 0, 0, 0, 0});
  if (attachment.outbox().send(drop.packet())) attachment.outbox().send(fence.packet());
  LARDER_POINT(drop_sent);
}

}  // namespace larder::client
