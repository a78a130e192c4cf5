// A tier over a peer: chunks go into the memory of another larderd by its own side,
// and come out over the wire.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "shim/base/fd.h"
#include "tests/conformance/tier_under_test.h"
#include "tests/unit/tiers/peer/peer_fixture.h"

namespace larder::tiers::testing_support {
namespace {

// Puts, drops and evictions happen in the other larderd; gets and looks ask it.
class PeerSide final : public Tier {
 public:
  explicit PeerSide(const base::Clock& clock)
      : holder_(clock),
        asker_(clock, peer::testing_support::client_options({holder_.endpoint()})),
        message_fd_(::epoll_create1(EPOLL_CLOEXEC)),
        own_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (const int fd : {own_fd_.get(), asker_.tier->message_fd()}) {
      epoll_event event{};
      event.events = EPOLLIN;
      ::epoll_ctl(message_fd_.get(), EPOLL_CTL_ADD, fd, &event);
    }
    EXPECT_TRUE(asker_.reaches(1));
  }

  Status put(Ticket ticket, const ChunkKey& key, const ChunkFacts& facts,
             std::span<const std::byte> slot, std::uint64_t) override {
    if (closed_) return refuse({Code::kUnavailable, "closed"});
    if (!plausible(facts) || slot.size() != facts.slot_bytes())
      return refuse({Code::kInvalidArgument, "slot"});
    if (slot.size() > kMostSlotBytes) return refuse({Code::kOutOfRange, "too large"});
    memory().put(key, facts, slot);
    asker_.tier->forget(key, asker_.tier->probe(key).value_or(ChunkFacts{}).generation);
    if (memory().size() > kMostChunks) {
      const std::optional<ChunkKey> oldest = memory().oldest();
      evicted_ +=
          memory().erase_if([&](const ChunkKey& one, const ChunkFacts&) { return one == *oldest; });
    }
    return done({Message::Kind::kDone, Operation::kPut, false, ticket, {}, {}});
  }
  Status get(Ticket ticket, const ChunkKey& key, std::span<std::byte> slot,
             std::uint64_t deadline_ns) override {
    return asker_.tier->get(ticket, key, slot, deadline_ns);
  }
  Status probe(Ticket ticket, std::span<const ChunkKey> keys, std::uint64_t deadline_ns) override {
    return asker_.tier->probe(ticket, keys, deadline_ns);
  }
  Status drop_namespace(Ticket ticket, const protocol::NamespaceId& id,
                        std::uint64_t deadline_ns) override {
    memory().erase_if(
        [&](const ChunkKey& key, const ChunkFacts&) { return key.namespace_id == id; });
    return asker_.tier->drop_namespace(ticket, id, deadline_ns);
  }
  Status clear(Ticket ticket, std::uint64_t deadline_ns) override {
    memory().erase_if([](const ChunkKey&, const ChunkFacts&) { return true; });
    return asker_.tier->clear(ticket, deadline_ns);
  }
  Status flush(Ticket ticket, std::uint64_t deadline_ns) override {
    return asker_.tier->flush(ticket, deadline_ns);
  }
  std::optional<ChunkFacts> probe(const ChunkKey& key) const override {
    return holder_.memory->find(key);
  }
  void forget(const ChunkKey& key, std::uint64_t generation) override {
    memory().erase_if([&](const ChunkKey& one, const ChunkFacts& facts) {
      return one == key && facts.generation == generation;
    });
    asker_.tier->forget(key, generation);
  }
  Status evict(const ChunkKey& key) override {
    memory().erase_if([&](const ChunkKey& one, const ChunkFacts&) { return one == key; });
    return asker_.tier->evict(key);
  }
  int message_fd() const override { return message_fd_.get(); }
  void take_messages(std::vector<Message>& out) override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(own_fd_.get(), &count, sizeof(count));
    for (Message& message : std::exchange(messages_, {})) out.push_back(std::move(message));
    asker_.tier->take_messages(out);
  }
  TierState state() const override { return asker_.tier->state(); }
  TierCounters counters() const override {
    TierCounters counters = asker_.tier->counters();
    counters.refused += refused_;
    counters.chunks = holder_.memory->size();
    counters.chunks_evicted = evicted_;
    return counters;
  }
  bool close(std::uint64_t grace_ms) override {
    closed_ = true;
    return asker_.tier->close(grace_ms);
  }

 private:
  peer::testing_support::ChunkHolder& memory() { return *holder_.memory; }
  Status refuse(Status why) {
    ++refused_;
    return why;
  }
  Status done(Message message) {
    messages_.push_back(std::move(message));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(own_fd_.get(), &one, sizeof(one));
    return {};
  }

  peer::testing_support::Holder holder_;
  peer::testing_support::Asker asker_;
  Fd message_fd_, own_fd_;
  std::vector<Message> messages_;
  std::uint64_t refused_ = 0, evicted_ = 0;
  bool closed_ = false;
};

class PeerBox final : public TierBox {
 public:
  std::unique_ptr<Tier> open() override { return std::make_unique<PeerSide>(clock); }
  bool survives_restart() const override { return false; }
  std::uint64_t most_slot_bytes() const override { return kMostSlotBytes; }
  std::uint64_t accepted_bytes() const override { return 256 << 20; }
  std::uint64_t capacity_chunks_of_1_mib() const override { return kMostChunks; }
};

}  // namespace

std::unique_ptr<TierBox> make_peer_box() {
  return std::make_unique<PeerBox>();
}

}  // namespace larder::tiers::testing_support
