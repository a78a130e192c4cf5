// The bytes of every message and the places in every region, written down once more: a change here
// is a new version.
#include <gtest/gtest.h>

#include "shim/protocol/codec.h"
#include "shim/protocol/index_layout.h"
#include "shim/protocol/residency_layout.h"
#include "shim/protocol/session_layout.h"

namespace larder::protocol {
namespace {

// The lowest `size` bytes of a number, lowest first.
std::string le(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xff);
  return bytes;
}
std::string zeros(std::size_t size) {
  return std::string(size, '\0');
}
std::string name(const std::string& text) {
  return le(text.size(), 4) + text + zeros(128 - text.size());
}
std::string header(int type, std::size_t body_bytes) {
  return "LDR1" + le(static_cast<std::uint64_t>(type), 2) + zeros(2) + le(body_bytes, 4) + le(7, 4);
}

constexpr std::uint64_t kA = 0x0102030405060708, kB = 0x1112131415161718, kC = 0x2122232425262728;

// The message with request 7 and this body is its header and these bytes.
template <typename... Parts>
void expect_bytes(MessageType type, int number, const std::string& body, const Parts&... parts) {
  Encoder encoder(type, 7);
  (encoder.append(parts), ...);
  const std::span<const std::byte> packet = encoder.packet();
  const std::string bytes(reinterpret_cast<const char*>(packet.data()), packet.size());
  EXPECT_EQ(bytes, header(number, body.size()) + body);
}

TEST(Golden, Hello) {
  Hello hello{};
  hello.version_major = 1;
  hello.version_minor = 2;
  hello.capabilities = kA;
  hello.previous_session = kB;
  hello.previous_epoch = kC;
  hello.engine = make_short_text("vllm");
  expect_bytes(MessageType::kHello, 1,
               le(1, 4) + le(2, 4) + le(kA, 8) + le(kB, 8) + le(kC, 8) + name("vllm") + zeros(28),
               hello);
}

TEST(Golden, Welcome) {
  Welcome welcome{};
  welcome.version_major = 1;
  welcome.version_minor = 2;
  welcome.capabilities = kA;
  welcome.epoch = kB;
  welcome.session_token = kC;
  welcome.session_number = 3;
  welcome.heartbeat_interval_ms = 4;
  welcome.heartbeat_timeout_ms = 5;
  welcome.max_grants = 6;
  welcome.arena_bytes = 7;
  welcome.index_bytes = 8;
  welcome.session_bytes = 9;
  welcome.arena_page_bytes = 10;
  welcome.residency_bytes = 11;
  expect_bytes(MessageType::kWelcome, 2,
               le(1, 4) + le(2, 4) + le(kA, 8) + le(kB, 8) + le(kC, 8) + le(3, 4) + le(4, 4) +
                   le(5, 4) + le(6, 4) + le(7, 8) + le(8, 8) + le(9, 8) + le(10, 8) + le(11, 8) +
                   zeros(40),
               welcome);
}

TEST(Golden, Namespaces) {
  OpenNamespace open{};
  open.id = {kA, kB};
  open.group_count = 1;
  open.shard_count = 2;
  open.chunk_tokens = 256;
  open.text_bytes = 0;
  open.model = make_short_text("llama");
  expect_bytes(MessageType::kOpenNamespace, 4,
               le(kA, 8) + le(kB, 8) + le(1, 4) + le(2, 4) + le(256, 4) + le(0, 4) + name("llama") +
                   zeros(4) + le(kC, 8) + le(24, 4) + zeros(4),
               open, GroupLayout{kC, 24, 0});
  expect_bytes(MessageType::kOpenNamespace, 4, le(3, 4) + le(1, 4) + le(kA, 8),
               NamespaceShards{3, 1}, kA);
  expect_bytes(MessageType::kNamespace, 5, le(3, 4) + le(0, 4), Namespace{3, 0});
  expect_bytes(MessageType::kDropNamespace, 11, le(3, 4) + zeros(4), DropNamespace{3, 0});
  expect_bytes(MessageType::kCloseNamespace, 27, le(3, 4) + le(1, 4),
               CloseNamespace{3, kCloseDrop});
}

TEST(Golden, Storing) {
  expect_bytes(MessageType::kReserve, 6,
               le(3, 4) + le(1, 2) + le(2, 2) + le(1, 4) + zeros(4) + le(kA, 8) + le(kB, 8),
               Reserve{3, 1, 2, 1, 0}, BlockHash{kA, kB});
  expect_bytes(MessageType::kReserve, 6,
               le(3, 4) + le(1, 2) + le(2, 2) + le(1, 4) + le(1, 4) + le(kA, 8) + le(kB, 8) +
                   le(kC, 8) + le(kA, 8),
               Reserve{3, 1, 2, 1, 1}, BlockHash{kA, kB}, BlockHash{kC, kA});
  expect_bytes(MessageType::kGranted, 7,
               le(1, 4) + zeros(4) + le(4, 4) + le(5, 4) + le(kA, 8) + le(kB, 8), Granted{1, 0},
               Grant{4, 5, kA, kB});
  expect_bytes(MessageType::kCommit, 8,
               le(1, 4) + zeros(4) + le(5, 4) + zeros(4) + le(kA, 8) + le(kB, 8), SlotList{1, 0},
               CommitRecord{5, 0, kA, kB});
}

TEST(Golden, ListsOfSlots) {
  const std::string slot = le(1, 4) + zeros(4) + le(5, 4) + zeros(4) + le(kA, 8);
  expect_bytes(MessageType::kAttached, 3, slot, Attached{1, 0}, SlotRef{5, 0, kA});
  expect_bytes(MessageType::kDisown, 9, slot, SlotList{1, 0}, SlotRef{5, 0, kA});
  expect_bytes(MessageType::kBad, 10, slot, SlotList{1, 0}, SlotRef{5, 0, kA});
}

TEST(Golden, GrantInquiry) {
  const std::string slot = le(1, 4) + zeros(4) + le(5, 4) + zeros(4) + le(kA, 8);
  expect_bytes(MessageType::kAskGrants, 15, slot, SlotList{1, 0}, SlotRef{5, 0, kA});
  expect_bytes(MessageType::kStillWriting, 16, slot, SlotList{1, 0}, SlotRef{5, 0, kA});
}

TEST(Golden, Acts) {
  expect_bytes(MessageType::kAct, 17,
               le(3, 4) + le(2, 4) + le(1, 4) + zeros(4) + le(kA, 8) + le(kB, 8),
               Act{3, static_cast<std::uint32_t>(Verb::kPin), 1, 0}, BlockHash{kA, kB});
  expect_bytes(MessageType::kAct, 17,
               le(3, 4) + le(5, 4) + le(1, 4) + zeros(4) + le(kA, 8) + le(kB, 8),
               Act{3, static_cast<std::uint32_t>(Verb::kPrefetchLast), 1, 0}, BlockHash{kA, kB});
  expect_bytes(MessageType::kAct, 17,
               le(3, 4) + le(7, 4) + le(1, 4) + le(600, 4) + le(kA, 8) + le(kB, 8),
               Act{3, static_cast<std::uint32_t>(Verb::kKeep), 1, 600}, BlockHash{kA, kB});
  expect_bytes(MessageType::kActed, 18, le(4, 4) + le(5, 4) + le(6, 4) + le(7, 4),
               Acted{static_cast<std::uint32_t>(Verb::kEvict), 5, 6, 7});
}

TEST(Golden, Fetches) {
  expect_bytes(MessageType::kFetch, 13,
               le(3, 4) + le(250, 4) + le(1, 4) + zeros(4) + le(kA, 8) + le(kB, 8),
               Fetch{3, 250, 1, 0}, BlockHash{kA, kB});
  expect_bytes(MessageType::kFetched, 14, le(5, 4) + le(2, 4) + le(kA, 8) + le(6, 4) + zeros(4),
               Fetched{5, static_cast<std::uint32_t>(FetchEnd::kLate), kA, 6, 0});
  expect_bytes(MessageType::kFetchEnd, 19, le(7, 4) + zeros(4), EndFetch{7, 0});
}

TEST(Golden, TierProbes) {
  expect_bytes(MessageType::kProbe, 20,
               le(3, 4) + le(250, 4) + le(1, 4) + zeros(4) + le(kA, 8) + le(kB, 8),
               Probe{3, 250, 1, 0}, BlockHash{kA, kB});
  expect_bytes(MessageType::kProbed, 21,
               le(5, 4) + le(4, 4) + le(kA, 8) + le(kB, 8) + le(6, 4) + le(2, 4),
               Probed{5, 4, kA, kB, 6, static_cast<std::uint32_t>(ProbeEnd::kFailed)});
  expect_bytes(MessageType::kProbe, 20,
               le(3, 4) + le(250, 4) + le(1, 4) + le(1, 4) + le(kA, 8) + le(kB, 8),
               Probe{3, 250, 1, kProbeEach}, BlockHash{kA, kB});
  expect_bytes(MessageType::kProbed, 21,
               le(5, 4) + le(1, 4) + le(kA, 8) + le(kB, 8) + le(6, 4) + le(0, 4) + le(kA, 8) +
                   zeros(112) + le(kB, 8),
               Probed{5, 1, kA, kB, 6, 0},
               ProbedEach{{kA, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, kB}});
}

TEST(Golden, Error) {
  expect_bytes(MessageType::kError, 12, le(10, 4) + le(0, 4),
               protocol::Error{static_cast<std::uint32_t>(Code::kUnsupported), 0});
}

TEST(Golden, ResidencyRegion) {
  const std::string key =
      le(kA, 8) + le(kB, 8) + le(kC, 8) + le(5, 8) + le(3, 2) + le(2, 2) + zeros(4);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  const ResidencyPlace place = residency_place({kA, kB}, {kC, 5}, 3, 2, 1024);
  EXPECT_EQ(place.bucket[0], hash.low64 % 1024);
  EXPECT_EQ(place.bucket[1], (hash.low64 >> 32) % 1024);
  EXPECT_EQ(place.tag, hash.high64 | 1);
}

TEST(Golden, HoldsAndWords) {
  EXPECT_EQ(make_hold(4, 0x1122334455667788), 0x5566778800000005U);
  EXPECT_EQ(pack_halves(1, 2), 0x0000000200000001U);
}

static_assert(offsetof(IndexHeader, magic) == 0 && offsetof(IndexHeader, version_major) == 8 &&
              offsetof(IndexHeader, version_minor) == 12 && offsetof(IndexHeader, epoch) == 16 &&
              offsetof(IndexHeader, size_bytes) == 24 && offsetof(IndexHeader, arena_bytes) == 32 &&
              offsetof(IndexHeader, entry_count) == 40 &&
              offsetof(IndexHeader, bucket_count) == 48 &&
              offsetof(IndexHeader, entries_offset) == 56 &&
              offsetof(IndexHeader, buckets_offset) == 64 &&
              offsetof(IndexHeader, namespaces_offset) == 72 && offsetof(IndexHeader, dead) == 80 &&
              offsetof(IndexHeader, generation_high_water) == 88 &&
              offsetof(IndexHeader, touched_bytes) == 96 &&
              offsetof(IndexHeader, restart_format) == 104 && offsetof(IndexHeader, tier) == 112);
static_assert(offsetof(IndexEntry, word) == 0 && offsetof(IndexEntry, hash_lo) == 8 &&
              offsetof(IndexEntry, hash_hi) == 16 && offsetof(IndexEntry, scope) == 24 &&
              offsetof(IndexEntry, place) == 32 && offsetof(IndexEntry, origin) == 40 &&
              offsetof(IndexEntry, root) == 48 && offsetof(IndexEntry, record) == 56);
static_assert(offsetof(NamespaceEntry, id_lo) == 0 && offsetof(NamespaceEntry, id_hi) == 8 &&
              offsetof(NamespaceEntry, live) == 16);
static_assert(offsetof(ResidencyHeader, magic) == 0 &&
              offsetof(ResidencyHeader, version_major) == 8 &&
              offsetof(ResidencyHeader, version_minor) == 12 &&
              offsetof(ResidencyHeader, bucket_count) == 16 &&
              offsetof(ResidencyHeader, serving) == 24 &&
              offsetof(ResidencyHeader, read_latency_ns) == 32 &&
              offsetof(ResidencyHeader, read_bytes_per_s) == 40 &&
              sizeof(ResidencyHeader) == 4096 && sizeof(ResidencyBucket) == 64);
static_assert(offsetof(SessionRegion, magic) == 0 && offsetof(SessionRegion, version_major) == 8 &&
              offsetof(SessionRegion, version_minor) == 12 &&
              offsetof(SessionRegion, heartbeat) == 16 &&
              offsetof(SessionRegion, holds_used) == 24 &&
              offsetof(SessionRegion, event_head) == 32);
static_assert(offsetof(Event, sequence) == 0 && offsetof(Event, kind_slot) == 8 &&
              offsetof(Event, generation) == 16 && offsetof(Event, a) == 24 &&
              offsetof(Event, b) == 32 && offsetof(Event, c) == 40 && offsetof(Event, d) == 48);

}  // namespace
}  // namespace larder::protocol
