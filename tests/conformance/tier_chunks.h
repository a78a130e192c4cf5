// Chunks with bytes derived from key and generation, and a loop's view of a tier: tickets, and the
// messages of each.
#pragma once

#include <poll.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/tier.h"

namespace larder::tiers::testing_support {

inline constexpr std::uint64_t kPayloadBytes = 1 << 20;
inline constexpr std::uint64_t kPieceBytes = 64 << 10;

inline ChunkKey key_of(std::uint64_t number, std::uint64_t space = 1) {
  return {{space, ~space},
          {number * 0x9e3779b97f4a7c15ULL, number},
          static_cast<std::uint16_t>(number % 3),
          0};
}

// Slot memory, aligned as an arena's.
class Slot {
 public:
  explicit Slot(std::uint64_t bytes)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), &std::free), size_(bytes) {
    std::memset(bytes_.get(), 0xee, bytes);
  }
  std::span<std::byte> span() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> bytes_;
  std::uint64_t size_;
};

// Fills a slot with the chunk's payload and digest table, and returns the facts.
inline ChunkFacts fill(std::span<std::byte> slot, std::uint64_t number, std::uint64_t generation,
                       std::uint64_t payload = kPayloadBytes, std::uint64_t piece = kPieceBytes) {
  std::memset(slot.data(), 0, slot.size());
  std::uint64_t state = number * 0x2545f4914f6cdd1dULL + generation;
  for (std::uint64_t at = 0; at < payload; at += 8) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(slot.data() + at, &state,
                static_cast<std::size_t>(std::min<std::uint64_t>(8, payload - at)));
  }
  std::vector<std::uint64_t> digests(protocol::digest_count(payload, piece));
  for (std::uint64_t i = 0; i < payload / piece; ++i)
    protocol::piece_digests(slot.data() + i * piece, piece,
                            digests.data() + i * protocol::units_per_piece(piece));
  std::memcpy(slot.data() + protocol::digest_table_offset(payload), digests.data(),
              8 * digests.size());
  return {generation, payload, piece, protocol::root_digest(digests.data(), digests.size())};
}

// Whether the slot holds exactly that chunk.
inline bool holds(std::span<const std::byte> slot, std::uint64_t number, const ChunkFacts& facts) {
  Slot expected(facts.slot_bytes());
  return fill(expected.span(), number, facts.generation, facts.payload_bytes, facts.piece_bytes) ==
             facts &&
         std::memcmp(expected.span().data(), slot.data(), facts.slot_bytes()) == 0;
}

// Drives a tier as the loop does.
class Loop {
 public:
  Loop(Tier& tier, const base::Clock& clock) : tier_(tier), clock_(clock) {}

  std::uint64_t in_ms(std::uint64_t ms) const { return clock_.now_ns() + ms * 1'000'000; }
  Ticket next() { return ++ticket_; }

  // Collects messages until the ticket's kDone is there; no message within 30 s is a failure.
  std::optional<Message> done(Ticket ticket, Message::Kind kind = Message::Kind::kDone) {
    const std::uint64_t end = in_ms(30'000);
    while (clock_.now_ns() < end) {
      for (const Message& message : of(ticket))
        if (message.kind == kind) return message;
      collect(100);
    }
    return std::nullopt;
  }
  void collect(int wait_ms) {
    pollfd waiting{tier_.message_fd(), POLLIN, 0};
    ::poll(&waiting, 1, wait_ms);
    std::vector<Message> messages;
    tier_.take_messages(messages);
    for (Message& message : messages) messages_[message.ticket].push_back(std::move(message));
  }
  const std::vector<Message>& of(Ticket ticket) { return messages_[ticket]; }

  // The chunks that a probe finds, after its end; empty: the probe failed.
  std::vector<bool> probe(std::span<const ChunkKey> keys) {
    for (const ChunkKey& key : keys) tier_.expect(key, kPayloadBytes, kPieceBytes);
    const Ticket ticket = next();
    if (!tier_.probe(ticket, keys, in_ms(20'000)).ok()) return {};
    const std::optional<Message> message = done(ticket);
    return message && message->status.ok() ? message->there : std::vector<bool>();
  }

  // The outcome, after the end.
  Status put(std::uint64_t number, std::uint64_t generation = 1, std::uint64_t space = 1,
             std::uint64_t payload = kPayloadBytes) {
    const std::uint64_t piece = std::min(payload, kPieceBytes);
    Slot slot(protocol::slot_bytes(payload, piece));
    const ChunkFacts facts = fill(slot.span(), number, generation, payload, piece);
    const Ticket ticket = next();
    if (Status status = tier_.put(ticket, key_of(number, space), facts, slot.span(), in_ms(20'000));
        !status.ok())
      return status;
    return ended(ticket);
  }
  // Ok only if the bytes are those of the number and the generation that the message names.
  Status get(std::uint64_t number, std::uint64_t space = 1, std::uint64_t payload = kPayloadBytes) {
    Slot slot(protocol::slot_bytes(payload, std::min(payload, kPieceBytes)));
    const Ticket ticket = next();
    if (Status status = tier_.get(ticket, key_of(number, space), slot.span(), in_ms(20'000));
        !status.ok())
      return status;
    const std::optional<Message> message = done(ticket);
    if (!message) return {Code::kInternal, "no message"};
    if (!message->status.ok()) return message->status;
    return holds(slot.span(), number, message->facts) ? Status()
                                                      : Status(Code::kInternal, "WRONG BYTES");
  }
  Status ended(Ticket ticket) {
    const std::optional<Message> message = done(ticket);
    return message ? message->status : Status(Code::kInternal, "no message");
  }
  Status flush() {
    const Ticket ticket = next();
    if (Status status = tier_.flush(ticket, in_ms(20'000)); !status.ok()) return status;
    return ended(ticket);
  }
  Status drop(std::uint64_t space) {
    const Ticket ticket = next();
    if (Status status = tier_.drop_namespace(ticket, {space, ~space}, in_ms(20'000)); !status.ok())
      return status;
    return ended(ticket);
  }
  Status clear() {
    const Ticket ticket = next();
    if (Status status = tier_.clear(ticket, in_ms(20'000)); !status.ok()) return status;
    return ended(ticket);
  }

 private:
  Tier& tier_;
  const base::Clock& clock_;
  Ticket ticket_ = 0;
  std::map<Ticket, std::vector<Message>> messages_;
};

}  // namespace larder::tiers::testing_support
