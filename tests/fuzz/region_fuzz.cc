// The session region: any bytes of a hostile engine in its shared memory, while the sidecar reads
// events and holds there.
//
// Promises: no byte beyond the region is read; one turn reads at most one ring of events; lying
// holds cost at most the named slots; an honest engine keeps its held chunks; after the end of the
// hostile one, no resource has leaked.
#include "sidecar/session/event_reader.h"
#include "tests/fuzz/bystander.h"
#include "tests/fuzz/ops.h"

namespace {

using namespace larder;
using namespace larder::fuzz;

constexpr std::uint64_t kSlots = 8;
constexpr std::uint64_t kFirstGeneration = 1000;
constexpr store::SessionNumber kHostile = 1, kOther = 2;
using Unfinished = session::EventReader::Unfinished;

class World {
 public:
  World() : box_(kSlots, kFirstGeneration), bystander_(box_) {
    static const store::testing_support::Memory memory =
        store::testing_support::zeroed_pages(sizeof(protocol::SessionRegion));
    std::memset(memory.get(), 0, sizeof(protocol::SessionRegion));
    region_ = reinterpret_cast<protocol::SessionRegion*>(memory.get());
    box_.store().sessions().add(kHostile, *region_);
    box_.add_session(kOther);
  }

  void step(Input& input) {
    using namespace region_op;
    switch (input.byte() % kOps) {
      case kHoldsUsed: region_->holds_used = input.take<std::uint64_t>(); return;
      case kWord: return write_word(input);
      case kHold:
        region_->holds[input.take<std::uint16_t>() % protocol::kMaxHolds] =
            protocol::make_hold(input.byte(), kFirstGeneration + input.byte());
        return;
      case kHead: region_->event_head = input.take<std::uint64_t>(); return;
      case kEvent: return add_event(input);
      case kRing: return fill_ring(input);
      case kDrain: return drain(Unfinished::kOneTick);
      case kReserve: box_.put(kOther, input.byte()); return;
      case kEvict:  // more than fits, so that holds are scanned
        for (std::uint64_t n = input.byte(), end = n + kSlots; n < end; ++n) box_.put(kOther, n);
        return;
      case kSilent: box_.store().sessions().set_silent(kHostile, (input.byte() & 1) != 0); return;
      default:
        now_ms_ += input.byte() * 100;
        bystander_.renew();
        box_.store().sessions().watch_holds(now_ms_, (input.byte() & 1) != 0);
        must(box_.store().sessions().use_of(kHostile).holds <= protocol::kMaxHolds,
             "holds are bounded");
        box_.store().verify_next();
        box_.store().sweep();
        return;
    }
  }

  void check() const { bystander_.check(); }
  void finish() {
    drain(Unfinished::kLost);
    for (const store::SessionNumber session : {kHostile, kOther}) {
      box_.store().sessions().end(session);
      box_.store().sessions().release_quarantine(session);
    }
    bystander_.leave(kSlots);
  }

 private:
  void write_word(Input& input) {
    const std::size_t words = sizeof(protocol::SessionRegion) / sizeof(std::uint64_t);
    reinterpret_cast<protocol::AtomicU64*>(region_)[input.take<std::uint32_t>() % words] =
        input.take<std::uint64_t>();
  }
  // As an engine writes one, with fields of the input's choice.
  void add_event(Input& input) {
    const std::uint64_t position = region_->event_head.fetch_add(1);
    protocol::Event& event = region_->events[position % protocol::kEventSlots];
    event.kind_slot = protocol::pack_halves(input.byte(), input.byte());
    event.generation = kFirstGeneration + input.byte();
    event.a = input.take<std::uint64_t>();
    event.b = input.byte();
    event.c = input.take<std::uint64_t>();
    event.d = input.byte() % 8;
    event.sequence = position + 1 - (input.byte() % 8 == 7 ? 1 : 0);
  }
  void fill_ring(Input& input) {
    const std::uint64_t first = region_->event_head;
    const std::uint32_t count = input.take<std::uint16_t>();
    for (std::uint64_t i = 0; i < count; ++i)
      region_->events[(first + i) % protocol::kEventSlots].sequence = first + i + 1;
    region_->event_head = first + count;
  }
  void drain(Unfinished unfinished) {
    const std::uint64_t lost = box_.stats().events_lost;
    reader_.drain(*region_, {box_.store(), box_.stats(), model_, 256, reuse_tracker_, namespaces_},
                  unfinished);
    must(box_.stats().events_lost - lost <= 2ULL * protocol::kEventSlots,
         "one turn reads at most one ring");
  }

  store::testing_support::StoreBox box_;
  Bystander bystander_;
  protocol::SessionRegion* region_ = nullptr;
  session::EventReader reader_;
  session::ReuseTracker reuse_tracker_{1 << 20, box_.store().namespaces()};
  const std::vector<std::uint32_t> namespaces_{0};
  std::uint64_t now_ms_ = 1000;
  stats::ModelStats model_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return run_steps<World>(data, size);
}
