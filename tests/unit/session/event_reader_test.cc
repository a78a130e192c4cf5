// Events that an engine is still writing when larderd reads its ring.
#include "sidecar/session/event_reader.h"

#include "tests/unit/store/store_fixture.h"

namespace larder::session {
namespace {

class EventReaderTest : public testing::Test {
 protected:
  // An event of one store. An unfinished one has its place, and no sequence yet.
  void write(bool finished) {
    protocol::Event& event = region_.events[region_.event_head.load() % protocol::kEventSlots];
    event.kind_slot =
        protocol::pack_halves(static_cast<std::uint32_t>(protocol::EventKind::kStore), 0);
    const std::uint64_t position = region_.event_head.fetch_add(1);
    if (finished) event.sequence = position + 1;
  }
  void drain(bool gives_up) {
    reader_.drain(region_, {box_.store(), box_.stats(), model_, 256, reuse_tracker_, {}}, gives_up);
  }

  store::testing_support::StoreBox box_{8};
  protocol::SessionRegion& region_ = box_.add_session(1);
  EventReader reader_;
  stats::ModelStats model_;
  ReuseTracker reuse_tracker_{1 << 20, box_.store().namespaces()};
};

TEST_F(EventReaderTest, OnlyTicksDiscardAnUnfinishedEvent) {
  write(true);
  write(false);
  write(true);
  drain(true);
  for (int message = 0; message < 3; ++message) drain(false);
  EXPECT_EQ(box_.stats().stored, 1U);
  EXPECT_EQ(box_.stats().events_lost, 0U) << "the messages came at once";
  drain(true);
  EXPECT_EQ(box_.stats().stored, 2U);
  EXPECT_EQ(box_.stats().events_lost, 1U);
}

TEST_F(EventReaderTest, LateEventIsCounted) {
  write(false);
  for (int message = 0; message < 3; ++message) drain(false);
  region_.events[0].sequence = 1;
  drain(false);
  EXPECT_EQ(box_.stats().stored, 1U);
  EXPECT_EQ(box_.stats().events_lost, 0U);
}

}  // namespace
}  // namespace larder::session
