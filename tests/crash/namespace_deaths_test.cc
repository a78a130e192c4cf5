// larderd killed at named points while an engine opens, uses and closes namespaces: in the next
// life the chunks of open namespaces are there, under the right name, and no part of a closed
// namespace is left.
#include <deque>
#include <filesystem>

#include "tests/crash/crash_test.h"

namespace larder::crash {
namespace {

constexpr std::size_t kOpen = 3;              // adapters at once
constexpr std::size_t kTextBytes = 40 << 10;  // long ones, so that the journal is soon written anew
// the same in every adapter: only the namespace tells the chunks apart
constexpr std::uint64_t kKey = 1;
constexpr int kGone = 10, kWrongByte = 3, kStale = 11;

// An engine whose adapters come and go, with its record of them.
class AdapterPlayer {
 public:
  AdapterPlayer(Engine& engine, Tally& tally) : engine_(engine), tally_(tally) {}

  // Until tally.stop: 0. Else the number of the fault.
  int play() {
    for (std::uint64_t i = 1; !tally_.stop && wrong_ == 0; ++i) {
      if (open_.size() == kOpen) close_first(i % 2 == 0);
      open(i);
      look_through();
    }
    while (!open_.empty()) close_first(true);
    return wrong_;
  }

 private:
  struct Adapter {
    std::uint32_t number;
    std::uint64_t content;
    bool stored;
  };

  void open(std::uint64_t content) {
    const std::string text = "engine: victim\nadapter: " + std::to_string(content) + "\n";
    const std::optional<std::uint32_t> number =
        engine_.open_adapter(text + std::string(kTextBytes, 'x') + "\n", 5000);
    if (!number) return;
    engine_.work_in(*number);
    const bool stored = eventually([&] {
      engine_.store({kKey}, content, 500);
      return tally_.stop || eventually([&] { return engine_.present(kKey); }, 100);
    });
    open_.push_back({*number, content, stored && !tally_.stop});
    ++tally_.stored;
  }

  void close_first(bool drop) {
    const Adapter gone = open_.front();
    open_.pop_front();
    engine_.close_adapter(gone.number, drop);
    engine_.work_in(gone.number);
    if (engine_.present(kKey)) wrong_ = kStale;
  }

  // Every chunk stored in an open namespace. The chunk may have to wait for the next larderd, which
  // opens the namespace again.
  void look_through() {
    for (const Adapter& one : open_) {
      if (!one.stored || wrong_ != 0) continue;
      engine_.work_in(one.number);
      if (!eventually([&] { return tally_.stop || engine_.load({kKey}) == Code::kOk; }, 20'000))
        wrong_ = kGone;
      if (!tally_.stop && wrong_ == 0 && !engine_.holds_bytes_of({kKey}, one.content))
        wrong_ = kWrongByte;
      ++tally_.loaded;
    }
  }

  Engine& engine_;
  Tally& tally_;
  std::deque<Adapter> open_;
  int wrong_ = 0;
};

class NamespaceDeaths : public CrashTest {
 protected:
  // larderd is killed at the point, during the engine's request.
  void die_at(std::string_view point, std::uint32_t nth) {
    world_.larderd().process().kill();
    page_.stop_at(point, nth);
    ChildProcess larderd([this] { return serve(); });
    EXPECT_TRUE(page_.await(point, 30'000)) << point << " was not reached";
    EXPECT_EQ(larderd.kill(), 128 + SIGKILL);
    page_.disarm();
    world_.restart();
  }
  // The temporary file of the journal: the next start removes the file.
  bool fresh_files_are_gone() {
    const std::string prefix = world_.larderd().name() + ".fresh.";
    return eventually([&] {
      for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
        if (file.path().filename().string().starts_with(prefix)) return false;
      return true;
    });
  }
};

TEST_F(NamespaceDeaths, ExactlyTheOpenNamespacesSurvive) {
  const int rounds = whole() ? 25 : 1;
  const auto player =
      engine([this](Engine& engine) { return AdapterPlayer(engine, tally_).play(); });
  ASSERT_TRUE(attached(1));
  for (int i = 0; i < rounds; ++i)
    for (const std::string_view point :
         {"namespace_unnoted", "namespace_left", "journal_written_anew", "journal_replaced"}) {
      die_at(point, 1 + static_cast<std::uint32_t>(i) % 3);
      ASSERT_TRUE(attached(1)) << "10: a chunk of an open namespace is gone, 3: a wrong byte, 11: "
                                  "a hit in a closed one; after "
                               << point;
      const std::uint64_t loaded = tally_.loaded;
      ASSERT_TRUE(eventually([&] { return tally_.loaded > loaded + kOpen; }, 20'000))
          << "attached and of no use after " << point;
      EXPECT_TRUE(fresh_files_are_gone()) << point;
    }
  tally_.stop = true;
  EXPECT_EQ(player->wait(30'000), 0)
      << "10: a chunk of an open namespace is gone, 3: a wrong byte, 11: a hit in a closed one";
  EXPECT_EQ(world_.leaks(), "");
}

}  // namespace
}  // namespace larder::crash
