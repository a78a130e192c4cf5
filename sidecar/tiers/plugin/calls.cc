#include "sidecar/tiers/plugin/calls.h"

#include <algorithm>
#include <utility>

#include "sidecar/tiers/plugin/record.h"

namespace larder::plugin {

std::uint64_t OpenCalls::add(Call call) {
  const std::uint64_t ticket = ++last_ticket_;
  call.sent_ns = clock_.now_ns();
  // No second call for a key begins while one of these is open: the service may run calls in any
  // order.
  if (call.kind == Kind::kPut || call.kind == Kind::kRemove) ++writing_[call.key];
  if (call.kind == Kind::kRemove) ++removes_;
  if (call.kind == Kind::kExist) ++exists_;
  if (call.owner != 0) by_owner_[call.owner] = ticket;
  calls_.emplace(ticket, std::move(call));
  return ticket;
}

std::span<std::byte> OpenCalls::begin_move(Kind kind, std::uint64_t owner,
                                           const tiers::ChunkKey& key, std::uint64_t bytes) {
  const std::optional<Piece> piece = link_.region().take(bytes);
  if (!piece) return {};
  const std::uint64_t ticket = add({kind, owner, key, piece, bytes, 0, 0});
  // Sent at the end of the turn: a plug-in with many entries at once can use its batch calls.
  (kind == Kind::kPut ? puts_ : gets_)
      .push_back({ticket, piece->offset, bytes, object_key(options_.prefix, key)});
  return link_.region().at(*piece).first(bytes);
}

void OpenCalls::exist(std::uint64_t owner, const std::vector<tiers::ChunkKey>& keys) {
  std::vector<std::string> texts;
  for (const tiers::ChunkKey& key : keys) texts.push_back(object_key(options_.prefix, key));
  link_.send(encode_exist(add({Kind::kExist, owner, {}, {}, 0, keys.size(), 0}), texts));
}

void OpenCalls::remove(std::uint64_t owner, const tiers::ChunkKey& key) {
  removals_.push_back(
      {add({Kind::kRemove, owner, key, {}, 0, 0, 0}), 0, 0, object_key(options_.prefix, key)});
}

void OpenCalls::clear(const std::string& prefix) {
  link_.send(encode_clear(add({Kind::kClear, 0, {}, {}, 0, 0, 0}), prefix));
}

void OpenCalls::flush() {
  for (auto& [kind, entries] : {std::pair(Kind::kGet, &gets_), std::pair(Kind::kPut, &puts_),
                                std::pair(Kind::kRemove, &removals_)}) {
    // One packet holds kMostEntries, so that no packet exceeds the limit of the contract.
    for (std::size_t at = 0; at < entries->size(); at += kMostEntries)
      link_.send(encode_entries(
          kind, std::span(*entries).subspan(at, std::min(kMostEntries, entries->size() - at))));
    entries->clear();
  }
  link_.flush();
}

bool OpenCalls::puts_into(const std::optional<protocol::NamespaceId>& id) const {
  return std::ranges::any_of(calls_, [&](const auto& one) {
    const Call& call = one.second;
    return call.kind == Kind::kPut && (!id || call.key.namespace_id == *id);
  });
}

const Call* OpenCalls::find(std::uint64_t ticket) const {
  const auto found = calls_.find(ticket);
  return found == calls_.end() ? nullptr : &found->second;
}

Call OpenCalls::end(std::uint64_t ticket) {
  const auto found = calls_.find(ticket);
  Call call = std::move(found->second);
  calls_.erase(found);
  if (call.kind == Kind::kPut || call.kind == Kind::kRemove)
    if (const auto writing = writing_.find(call.key); --writing->second == 0)
      writing_.erase(writing);
  if (call.kind == Kind::kRemove) --removes_;
  if (call.kind == Kind::kExist) --exists_;
  if (call.owner != 0) by_owner_.erase(call.owner);
  // Only the answer gives a piece back. Until then the plug-in may still write into the piece.
  if (!call.piece) return call;
  if (call.owner == 0) retired_bytes_ -= call.piece->bytes;
  link_.region().give_back(*call.piece);
  return call;
}

void OpenCalls::retire(std::uint64_t owner) {
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) return;
  // The operation was answered at its deadline. The call stays, and with the call its piece.
  Call& call = calls_.at(found->second);
  by_owner_.erase(found);
  call.owner = 0;
  if (call.piece) retired_bytes_ += call.piece->bytes;
}

void OpenCalls::forget_all() {
  calls_.clear();
  writing_.clear();
  by_owner_.clear();
  for (std::vector<Entry>* entries : {&puts_, &gets_, &removals_}) entries->clear();
  retired_bytes_ = 0;
  removes_ = 0;
  exists_ = 0;
}

}  // namespace larder::plugin
