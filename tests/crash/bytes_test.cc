// "Never a wrong byte", with an engine stopped in the middle of a copy while its surroundings
// change.
#include <fcntl.h>

#include "tests/crash/crash_test.h"

namespace larder::crash {
namespace {

class Bytes : public CrashTest {
 protected:
  // Another engine of this arena writes over the whole arena.
  void overwrite_the_arena() {
    const Fd fd(
        ::open(("/dev/shm/" + world_.larderd().name() + ".arena").c_str(), O_RDWR | O_CLOEXEC));
    Result<Mapping> arena = Mapping::map_shared(fd, 1 << 20, PROT_READ | PROT_WRITE, "arena");
    ASSERT_TRUE(arena.ok());
    std::memset(arena->data(), 0xee, arena->size());
  }
};

TEST_F(Bytes, SlotIsNotReusedDuringALoad) {
  const auto reader = engine([this](Engine& engine) {
    if (!store_at_last(engine, {1}, 7)) return 10;
    page_.stop_at("load_half");
    if (engine.load({1}) != Code::kOk) return 11;
    return engine.holds_bytes_of({1}, 7) ? 0 : 12;
  });
  ASSERT_TRUE(page_.await("load_half"));
  fill_with_others();
  page_.go("load_half");
  EXPECT_EQ(reader->wait(20'000), 0) << "11: it was evicted under the load";
}

TEST_F(Bytes, LoadVerifiesTheBytesInThePages) {
  const auto reader = engine([this](Engine& engine) {
    if (!store_at_last(engine, {1, 2}, 7)) return 10;
    page_.stop_at("load_half");
    const Code loaded = engine.load({1});
    if (loaded != Code::kDataLoss) return loaded == Code::kOk ? 11 : 12;
    return eventually([&] { return !engine.present(1); }) ? 0 : 13;
  });
  ASSERT_TRUE(page_.await("load_half"));
  overwrite_the_arena();  // the other half, and the digest table
  page_.go("load_half");
  EXPECT_EQ(reader->wait(20'000), 0)
      << "11: wrong bytes were reported good; 13: what is bad was not dropped";
  EXPECT_TRUE(eventually([&] { return status({"trust", "bad_reported"}) == 1; }));
}

TEST_F(Bytes, BadReportOfEarlierGenerationDropsNothing) {
  const auto reader = engine([this](Engine& engine) {
    if (!store_at_last(engine, {1}, 7)) return 10;
    page_.stop_at("load_hold_released");
    engine.load_in_bad_faith({1});  // BAD names the generation that the engine has seen
    return 0;
  });
  ASSERT_TRUE(page_.await("load_hold_released"));
  fill_with_others();
  const auto other = engine([](Engine& engine) {
    if (engine.present(1)) return 10;
    return store_at_last(engine, {1}, 8) ? 0 : 11;
  });
  ASSERT_EQ(other->wait(20'000), 0);
  page_.go("load_hold_released");
  EXPECT_EQ(reader->wait(20'000), 0);
  ASSERT_TRUE(eventually([&] { return status({"trust", "bad_reported"}) == 1; }));
  const auto witness = engine([](Engine& engine) {
    return engine.load({1}) == Code::kOk && engine.holds_bytes_of({1}, 8) ? 0 : 10;
  });
  EXPECT_EQ(witness->wait(20'000), 0) << "the chunk of the new generation is gone";
  EXPECT_EQ(status({"memory", "evicted", "bad"}), 0) << "the present chunk of the slot was dropped";
}

TEST_F(Bytes, DropCoversChunksBeingWritten) {
  const auto writer = engine([this](Engine& engine) {
    page_.stop_at("commit_ready");
    engine.store({1}, 7, 5000);
    return sleep_for_ever();
  });
  ASSERT_TRUE(page_.await("commit_ready"));
  const auto other = engine([](Engine& engine) {
    engine.drop();
    // the drop is done
    return eventually([&] { return engine.store({2}, 8, 1000) == 1; }) ? 0 : 10;
  });
  ASSERT_EQ(other->wait(20'000), 0);
  page_.go("commit_ready");
  EXPECT_TRUE(eventually([&] {
    return status({"stores", "refused_commit"}) == 1;
  })) << "a chunk stored before the drop is visible";
  EXPECT_EQ(world_.slots_in(SlotState::kQuarantined), 0U);
  EXPECT_EQ(world_.slots_in(SlotState::kGranted), 0U);
}

TEST_F(Bytes, LateWriterOfKilledLarderdCorruptsNoChunkOfTheNext) {
  const auto writer = engine([this](Engine& engine) {
    page_.stop_at("store_half");
    if (engine.store({1}, 7, 5000) != 0) return 10;
    return store_at_last(engine, {1}, 8) && engine.load({1}) == Code::kOk &&
                   engine.holds_bytes_of({1}, 8)
               ? 0
               : 11;
  });
  ASSERT_TRUE(page_.await("store_half"));
  world_.restart();
  fill_with_others();
  page_.go("store_half");
  EXPECT_EQ(writer->wait(20'000), 0) << "10: a store into the dead one was believed";
  EXPECT_GT(all_visible_verify(), 0U);
  EXPECT_EQ(world_.leaks(), "");
}

}  // namespace
}  // namespace larder::crash
