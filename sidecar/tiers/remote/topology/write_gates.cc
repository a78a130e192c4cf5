#include "sidecar/tiers/remote/topology/write_gates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "sidecar/base/sizes.h"
#include "sidecar/tiers/remote/resp/error_reply.h"

namespace larder::remote {
namespace {

constexpr std::uint64_t kRoomEveryNs = 2'000'000'000;
// Half, so sums with sizes of chunks do not overflow.
constexpr std::uint64_t kUnlimited = UINT64_MAX / 2;

std::optional<std::uint64_t> number_in(std::string_view info, std::string_view name) {
  const std::string_view text = info_value(info, name);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

// The free bytes of a server, from its INFO. Empty: INFO does not say.
std::optional<std::uint64_t> free_bytes_in(std::string_view info) {
  const auto used = number_in(info, "used_memory"), most = number_in(info, "maxmemory");
  if (!used || !most) return std::nullopt;
  // Without maxmemory, or with a policy that evicts any key, the server makes room itself.
  if (*most == 0 || info_value(info, "maxmemory_policy").starts_with("allkeys")) return kUnlimited;
  return *most - std::min(*most, *used);
}

std::string size_text(std::uint64_t bytes) {
  return bytes < 1 << 20 ? std::to_string(bytes >> 10) + " KiB" : base::mib(bytes);
}

}  // namespace

// Every write of a key goes to one server, so the gate of that server decides.
Node* WriteGates::writer_of(std::string_view key) const {
  if (cluster()) return slots_.master(slot_of(key));
  return nodes_.empty() ? nullptr : nodes_.front().get();
}

WriteGates::Refusal WriteGates::chunk_refusal(const std::vector<std::string>& keys,
                                              std::uint64_t bytes) const {
  const std::uint64_t now = clock_.now_ns();
  for (const std::string& key : keys) {
    const Node* const node = writer_of(key);
    // The node of a slot may be unknown; ask() refuses such a command on its own.
    if (node == nullptr || node->gate.lets(bytes, now)) continue;
    return {{Code::kUnavailable, node->gate.reason()}, node->gate.again_ns(now)};
  }
  return {};
}

// Prefers the key of a part over the record (the first key), because the record is sent last.
std::optional<std::size_t> WriteGates::begin_chunk(const std::vector<std::string>& keys,
                                                   std::uint64_t bytes, std::uint64_t of) {
  std::optional<std::size_t> tried;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Node* const node = writer_of(keys[i]);
    if (node != nullptr && node->gate.begin(bytes, clock_.now_ns(), of) && tried.value_or(0) == 0)
      tried = i;
  }
  return tried;
}

void WriteGates::chunk_stored(const std::vector<std::string>& keys, const WriteGate::Put& put) {
  for (const std::string& key : keys) {
    Node* const node = writer_of(key);
    if (node == nullptr) continue;
    node->gate.stored(put);
    // A stored chunk proves a working server. A short probe alone does not.
    node->health.proven();
  }
}

void WriteGates::chunk_refused(const std::string& key, const WriteGate::Put& put,
                               const ErrorMeaning& meaning) {
  Node* const node = writer_of(key);
  if (node == nullptr || !refuses_chunk(meaning)) return;
  const bool full = meaning.code == "OOM";
  const WriteGate::Why why = full                   ? WriteGate::Why::kFull
                             : meaning.code.empty() ? WriteGate::Why::kUnknown
                                                    : WriteGate::Why::kKnown;
  node->gate.refused(put, std::string(meaning.text), why, clock_.now_ns());
  // Asked at once: with the answer the gate opens as soon as the server has room.
  node->room_due_ns = 0;
  // A short write may be refused as well: then the server takes no puts at all, and the tier says
  // so.
  if (full && !node->probing) health_.probe(*node);  // finds out whether the server takes any write
}

void WriteGates::chunk_lost(const std::string& key, const WriteGate::Put& put, const Status& why) {
  if (Node* const node = writer_of(key); node != nullptr)
    node->gate.lost(put, "chunks of this size do not get through: " + why.text(), clock_.now_ns());
}

void WriteGates::end_trials(std::uint64_t of) {
  // All nodes: the slot of the trial may have moved to another one since.
  for (const std::unique_ptr<Node>& node : nodes_) node->gate.end_trial(of);
}

void WriteGates::maintain(std::uint64_t now_ns) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = *nodes_[i];
    node.gate.tick(now_ns);
    if (awaits_room(node) && now_ns >= node.room_due_ns) ask_room(node, now_ns);
  }
}

std::uint64_t WriteGates::next_ns(std::uint64_t now_ns) const {
  std::uint64_t next = UINT64_MAX;
  for (const std::unique_ptr<Node>& node : nodes_)
    if (awaits_room(*node)) next = std::min(next, std::max(node->room_due_ns, now_ns));
  return next;
}

// Asks for the room often: a question is short, a trial is long.
void WriteGates::ask_room(Node& node, std::uint64_t now_ns) {
  node.room_due_ns = now_ns + kRoomEveryNs;
  Request request;
  request.around.before = format_command(std::array<std::string_view, 2>{"INFO", "memory"});
  request.expect.types = "$";
  request.then = [this, &node](const Status& lost, const Reply& reply) {
    node.asking_room = false;
    if (!lost.ok() || reply.kind != Reply::Kind::kBulk) return;
    if (const auto free_bytes = free_bytes_in(reply.text))
      node.gate.has_room(*free_bytes, clock_.now_ns());
  };
  node.asking_room = node.links->ask(Lane::kReads, std::move(request)).ok();
}

std::string WriteGates::refused_chunks() const {
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (!nodes_.counts(*node) || node->gate.lets(node->gate.closed_from(), clock_.now_ns()))
      continue;  // the next chunk passes
    return (cluster() ? text_of(node->links->endpoint()) + " takes no chunks of "
                      : "takes no chunks of ") +
           size_text(node->gate.closed_from()) + " and more: " + node->gate.reason();
  }
  return "";
}

}  // namespace larder::remote
