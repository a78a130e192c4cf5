// Peers: whatever a hostile peer sends, in pieces of any size, into the real ServerConnection; and
// as replies into the real parsers.
//
// Promises: a connection asks the store for one request at a time, has a bounded number of holds,
// and gives each back exactly once, all of them when it ends;
// what the parsers take is plausible and bounded.
#include <map>
#include <memory>

#include "sidecar/tiers/peer/server_connection.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/ops.h"
#include "tests/unit/net/scripted_stream.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using namespace larder::peer;

constexpr std::uint64_t kSlotBytes = 8192;
constexpr std::uint32_t kSlots = 8;

tiers::ChunkKey key_of(std::uint32_t number) {
  return {{1, 2}, {number, 3}, 0, 0};
}

class World {
 public:
  World() {
    must(exchange_.open().ok(), "a descriptor");
    for (std::uint32_t slot = 0; slot < kSlots; ++slot)
      slots_.emplace_back(kSlotBytes, static_cast<std::byte>('a' + slot));
    connection_ = std::make_unique<ServerConnection>(
        services_, 1, std::make_unique<net::testing_support::ScriptedStream>(wire_), "192.0.2.1",
        now_ns_);
  }

  void step(Input& input) {
    switch (input.byte() % peer_op::kOps) {
      case peer_op::kFrame: wire_->to_us += frame(input); break;
      case peer_op::kBytes: wire_->to_us += input.take_text(input.byte()); break;
      case peer_op::kAnswer: return answer(input.byte());
      case peer_op::kPieces:
        wire_->receive_at_most = std::size_t{1} + input.take<std::uint16_t>();
        wire_->send_at_most = std::size_t{1} + input.take<std::uint16_t>();
        break;
      case peer_op::kTime: now_ns_ += std::uint64_t{input.byte()} * 10'000'000; break;
      case peer_op::kReply: return replies(input);
      default: wire_->closed = true; break;
    }
    turn();
  }

  void check() {
    must(holds_.bytes() <= Holds::kMost * kSlotBytes, "holds are bounded");
    const HoldExchange::Waiting waiting = exchange_.take_requests();
    for (const HeldChunk& chunk : waiting.given_back)
      must(held_[chunk.slot_number]-- > 0, "given back once");
    for (const HoldRequest& request : waiting.requests) {
      must(request.keys.size() <= kMostKeys && !request.keys.empty(), "requests are bounded");
      requests_.push_back(request);
    }
    must(requests_.size() <= 1, "later requests wait behind one for the store");
    wire_->from_us.clear();
  }

  void finish() {
    connection_.reset();
    check();
    for (const auto& [slot, times] : held_) must(times == 0, "all is given back in the end");
  }

 private:
  std::string frame(Input& input) {
    const std::uint8_t kind = input.byte(), number = input.byte();
    const tiers::ChunkKey key = key_of(number % (2 * kSlots));
    switch (kind % 7) {
      case 0: return format_ping();
      case 1: return format_hello({"chat", "other", 1});
      case 2: return format_hello({"elsewhere", "other", 1});
      case 3: return format_look({&key, 1}, std::uint32_t{number} * 8);
      case 4: return format_done({&key, 1});
      case 5: return format_get(key, 1, 0, kSlotBytes);
      default:
        return format_get(key, 1 + number % 2, std::uint64_t{number} * 64,
                          1 + input.take<std::uint16_t>());
    }
  }
  void answer(std::uint8_t how) {
    if (requests_.empty()) return;
    const HoldRequest request = requests_.front();
    requests_.clear();
    HoldReply reply{1, {}};
    for (const tiers::ChunkKey& key : request.keys) {
      reply.chunks.emplace_back();
      if (key.hash.lo >= kSlots || how % 4 == 3) continue;
      const auto slot = static_cast<std::uint32_t>(key.hash.lo);
      const bool held = request.hold && how % 4 != 2;
      reply.chunks.back() = HeldChunk{{1, 4096, 4096, 7, 0}, slots_[slot], slot, held};
      held_[slot] += held ? 1 : 0;
    }
    if (connection_) {
      connection_->answer(reply, now_ns_);
      return turn();
    }
    for (const std::optional<HeldChunk>& chunk : reply.chunks)
      if (chunk && chunk->held) --held_[chunk->slot_number];
  }
  void turn() {
    if (connection_ && !connection_->turn(now_ns_).ok()) connection_.reset();
  }
  static void replies(Input& input) {
    const std::size_t keys = 1 + input.byte() % 64;
    const std::string bulk = input.take_text(input.byte());
    if (const auto chunks = parse_look_reply(bulk, keys); chunks.ok()) {
      must(chunks->size() == keys, "facts for each key");
      for (const auto& facts : *chunks)
        must(!facts || tiers::plausible(*facts), "facts are plausible");
    }
    net::Reply hello{net::Reply::Kind::kArray, "", 0, {}};
    for (int i = 0; i < 5; ++i)
      hello.elements.push_back(
          {net::Reply::Kind::kBulk, input.take_text(input.byte() % 80), 0, {}});
    if (const Result<Instance> other = parse_hello_reply(hello); other.ok())
      must(other->pool.size() <= kMostName && other->id.size() <= kMostName, "names are bounded");
  }

  ServerOptions options_ = [] {
    ServerOptions options;
    options.self = {"chat", "self", 1};
    return options;
  }();
  HoldExchange exchange_;
  HoldTable holds_{exchange_};
  base::ByteBudget budget_{0};
  ServerCounters counters_;
  ServerConnection::Services services_{options_, exchange_, holds_, budget_, counters_};
  std::shared_ptr<net::testing_support::Wire> wire_ =
      std::make_shared<net::testing_support::Wire>();
  std::vector<std::vector<std::byte>> slots_;
  std::map<std::uint32_t, int> held_;  // by slot
  std::vector<HoldRequest> requests_;
  std::uint64_t now_ns_ = 1'000'000'000;
  std::unique_ptr<ServerConnection> connection_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return run_steps<World>(data, size);
}
