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
  void drain(EventReader::Unfinished unfinished) {
    reader_.drain(region_, {box_.store(), box_.stats(), model_, 256, reuse_tracker_, {}},
                  unfinished);
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
  drain(EventReader::Unfinished::kOneTick);
  for (int message = 0; message < 3; ++message) drain(EventReader::Unfinished::kWaits);
  EXPECT_EQ(box_.stats().stored, 1U);
  EXPECT_EQ(box_.stats().events_lost, 0U) << "the messages came at once";
  drain(EventReader::Unfinished::kOneTick);
  EXPECT_EQ(box_.stats().stored, 2U);
  EXPECT_EQ(box_.stats().events_lost, 1U);
}

TEST_F(EventReaderTest, LateEventIsCounted) {
  write(false);
  for (int message = 0; message < 3; ++message) drain(EventReader::Unfinished::kWaits);
  region_.events[0].sequence = 1;
  drain(EventReader::Unfinished::kWaits);
  EXPECT_EQ(box_.stats().stored, 1U);
  EXPECT_EQ(box_.stats().events_lost, 0U);
}

// covers F-475
TEST_F(EventReaderTest, EndOfASessionCountsTheEventsBehindUnfinishedOnes) {
  for (const bool finished : {true, false, true, false, true}) write(finished);
  drain(EventReader::Unfinished::kWaits);
  EXPECT_EQ(box_.stats().stored, 1U);
  drain(EventReader::Unfinished::kLost);
  EXPECT_EQ(box_.stats().stored, 3U);
  EXPECT_EQ(box_.stats().events_lost, 2U);
}

// covers F-104
TEST_F(EventReaderTest, EachEventCountsAsWork) {
  for (int i = 0; i < 100; ++i) write(true);
  const std::uint64_t before = box_.store().effort();
  drain(EventReader::Unfinished::kWaits);
  EXPECT_EQ(box_.store().effort() - before, 100U) << "a turn of a session ends by its effort";
}

}  // namespace
}  // namespace larder::session
