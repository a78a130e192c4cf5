// A restart: the state that the next larderd continues, refuses, or starts without.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "shim/protocol/index_layout.h"
#include "sidecar/memory/lock_file.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

namespace fs = std::filesystem;

// An engine of another living process: the engine has the lock of a session.
class LivingSession {
 public:
  LivingSession(const std::string& path, const memory::LockFile::Note& note) : path_(path) {
    std::ofstream(path).write(reinterpret_cast<const char*>(&note), sizeof(note));
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const int fd = ::open(path.c_str(), O_RDWR);
      struct flock lock {};
      lock.l_type = F_WRLCK;
      ::fcntl(fd, F_SETLK, &lock);
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~LivingSession() { end(); }
  void end() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  bool known() const { return fs::exists(path_); }

 private:
  const std::string path_;
  pid_t pid_ = 0;
};

class RestartTest : public SidecarTest {
 protected:
  std::vector<std::string> files(const std::string& kind) const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(directory_))
      if (entry.path().filename().string().starts_with("larder." + kind))
        paths.push_back(entry.path());
    return paths;
  }
  // Stores under these keys and stops.
  void live_with(const std::vector<protocol::BlockHash>& hashes) {
    start();
    Client client(config_.socket);
    client.attach();
    store(client, hashes);
    stop();
    ASSERT_EQ(files("index.").size(), 1U);
  }
  static void store(Client& client, const std::vector<protocol::BlockHash>& hashes) {
    const std::uint32_t handle = client.open_namespace("a: 1");
    for (const protocol::Grant& grant : client.reserve(handle, hashes))
      if (grant.status == 0) client.commit(grant, 1);
    client.reserve(handle, {});  // all is done
  }
  bool holds(const protocol::BlockHash& hash) {
    Client client(config_.socket);
    client.attach();
    return client.index().find({hash, client.open_namespace("a: 1"), 0, 0}).has_value();
  }
  Status refused() {
    Result<std::unique_ptr<Sidecar>> sidecar = Sidecar::start(config_, clock_);
    return sidecar.ok() ? Status() : sidecar.status();
  }
  // Changes the header of the index that was left.
  void change(const std::function<void(protocol::IndexHeader&)>& make) {
    const Fd fd(::open(files("index.").at(0).c_str(), O_RDWR | O_CLOEXEC));
    Result<Mapping> mapping =
        Mapping::map_shared(fd, sizeof(protocol::IndexHeader), PROT_READ | PROT_WRITE, "index");
    ASSERT_TRUE(mapping.ok());
    make(*reinterpret_cast<protocol::IndexHeader*>(mapping->data()));
  }
  // The refused states, and the result after a request to replace the state.
  void refused_unless_told(const std::string& part_of_why) {
    const Status status = refused();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status.to_string();
    EXPECT_NE(status.text().find(part_of_why), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("memory.on_mismatch: replace"), std::string::npos)
        << status.text();
    EXPECT_EQ(files("index.").size(), 1U) << "it was touched";
    config_.memory.on_mismatch = config::OnMismatch::kReplace;
    start();
    EXPECT_EQ(stats().restored_chunks, 0U);
    EXPECT_FALSE(holds({1, 1}));
  }
};

// covers F-003
TEST_F(RestartTest, RestartKeepsStoredChunks) {
  live_with({{1, 1}, {2, 2}});
  start();
  EXPECT_EQ(stats().restored_chunks, 2U);
  EXPECT_EQ(stats().restore_dropped, 0U);
  EXPECT_TRUE(holds({1, 1}) && holds({2, 2}));
  EXPECT_FALSE(holds({3, 3}));
  EXPECT_EQ(files("index.").size(), 1U) << "there was no engine to wait for";
  EXPECT_EQ(files("namespaces.").size(), 1U);
  stop();
  start();
  EXPECT_TRUE(holds({1, 1})) << "and the one after it as well";
}

TEST_F(RestartTest, MemoryIsUsableAtOnce) {
  config_.memory.size_bytes = 512 << 20;
  start();
  stop();
  Result<std::unique_ptr<Sidecar>> sidecar = Sidecar::start(config_, clock_);
  ASSERT_TRUE(sidecar.ok());
  EXPECT_EQ((*sidecar)->snapshot().touched_bytes, config_.memory.size_bytes);
}

TEST_F(RestartTest, MessagesSentBeforeTheStopAreProcessed) {
  start();
  Client client(config_.socket);
  client.attach();
  const std::uint32_t handle = client.open_namespace("a: 1");
  const auto grants = client.reserve(handle, {{1, 1}});
  client.commit(grants[0], 1);
  stop();
  start();
  EXPECT_TRUE(holds({1, 1}));
}

TEST_F(RestartTest, GenerationsExceedThoseOfPreviousInstances) {
  live_with({{1, 1}});
  // above this machine's clock
  change([](protocol::IndexHeader& header) { header.generation_high_water = 1ULL << 59; });
  start();
  Client client(config_.socket);
  client.attach();
  EXPECT_TRUE(holds({1, 1}));
  EXPECT_GT(client.reserve(client.open_namespace("a: 1"), {{2, 2}})[0].generation, 1ULL << 59);
}

// covers F-010
TEST_F(RestartTest, OtherSizeIsRefusedUnlessConfigured) {
  live_with({{1, 1}});
  config_.memory.size_bytes = 2 << 20;
  refused_unless_told("larder.arena has 1 MiB and memory.size asks for 2 MiB");
}

// covers F-010
TEST_F(RestartTest, OtherSizeIsAlwaysRefusedWhileAnEngineUsesTheMemory) {
  live_with({{1, 1}});
  LivingSession engine(directory_ + "/larder.lock.7", {});
  config_.memory.size_bytes = 2 << 20;
  config_.memory.on_mismatch = config::OnMismatch::kReplace;
  EXPECT_EQ(refused().text(), directory_ +
                                  "/larder.arena has 1 MiB and memory.size asks for 2 MiB, while "
                                  "engines use it (sessions 7): "
                                  "set memory.size back, or stop these engines first");
  engine.end();
  start();
  EXPECT_EQ(stats().arena_bytes, 2U << 20);
}

// covers F-010
TEST_F(RestartTest, FutureFormatIsRefusedUnlessConfigured) {
  live_with({{1, 1}});
  change([](protocol::IndexHeader& header) { header.restart_format = 99; });
  refused_unless_told("restart format 99");
}

// covers F-010
TEST_F(RestartTest, IndexOfOtherUserIsRefusedUnlessConfigured) {
  live_with({{1, 1}});
  if (::chown(files("index.").at(0).c_str(), 65534, 65534) != 0)
    GTEST_SKIP() << "needs the right to give a file away";
  refused_unless_told("belongs to the user of id 65534");
}

TEST_F(RestartTest, ArenaOfOtherUserIsRefusedUnlessConfigured) {
  live_with({{1, 1}});
  if (::chown((directory_ + "/larder.arena").c_str(), 65534, 65534) != 0)
    GTEST_SKIP() << "needs the right to give a file away";
  refused_unless_told("belongs to the user of id 65534");
}

// covers F-011
TEST_F(RestartTest, UnreadableIndexIsAColdStart) {
  for (const auto& damage : std::vector<std::function<void(protocol::IndexHeader&)>>{
           [](auto& header) { header.entry_count = 1ULL << 40; },
           [](auto& header) { header.magic = 0; }, [](auto& header) { header.arena_bytes *= 2; },
           [](auto& header) { header.restart_format = 0; }, [](auto& header) { header.dead = 1; },
           [](auto& header) { header.generation_high_water = 0; }}) {
    live_with({{1, 1}});
    change(damage);
    start();
    EXPECT_EQ(stats().restored_chunks, 0U);
    EXPECT_FALSE(holds({1, 1}));
    EXPECT_EQ(files("index.").size(), 1U);
    stop();
  }
  live_with({{1, 1}});
  fs::resize_file(files("index.").at(0), 4096);
  start();
  EXPECT_FALSE(holds({1, 1}));
  stop();
  fs::remove(directory_ + "/larder.arena");
  start();
  EXPECT_FALSE(holds({1, 1}));
}

TEST_F(RestartTest, NamespaceMissingInTheJournalIsNotRestored) {
  live_with({{1, 1}});
  const std::string journal = files("namespaces.").at(0);
  fs::resize_file(journal, fs::file_size(journal) - 1);
  start();
  EXPECT_FALSE(holds({1, 1}));
  EXPECT_EQ(stats().restore_dropped, 1U);
}

// covers F-011
TEST_F(RestartTest, NoSpaceForASecondIndexIsAColdStart) {
  const std::string small = directory_ + "/small";
  fs::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=1128K") != 0)
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  config_.memory.directory = small;
  start();
  stop();
  start();
  EXPECT_EQ(stats().restored_chunks, 0U);
  stop();
  EXPECT_EQ(::umount2(small.c_str(), MNT_DETACH), 0);
}

// Of an arena with holes the grants of its writers are unknown: the writers keep the old file to
// themselves.
TEST_F(RestartTest, ArenaWithHolesIsAColdStart) {
  live_with({{1, 1}});
  const LivingSession engine(directory_ + "/larder.lock.7", {1, 2});
  const std::string path = directory_ + "/larder.arena";
  const Fd arena(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::fallocate(arena.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  start();
  struct stat before {
  }, now{};
  ASSERT_TRUE(::fstat(arena.get(), &before) == 0 && ::stat(path.c_str(), &now) == 0);
  EXPECT_NE(before.st_ino, now.st_ino);
}

// covers F-014
TEST_F(RestartTest, FullDirectoryLetsEnginesAttach) {
  const std::string small = directory_ + "/small";
  fs::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=2M") != 0)
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  config_.memory.directory = small;
  start();
  {
    std::ofstream full(small + "/full");
    while (full << std::string(4096, 'x') && full.flush()) {
    }
    Client client(config_.socket);
    client.attach();
    const std::vector<protocol::Grant> grants =
        client.reserve(client.open_namespace("a: 1"), {{1, 1}});
    EXPECT_TRUE(grants.size() == 1 && grants[0].status == 0);
  }
  stop();
  EXPECT_EQ(::umount2(small.c_str(), MNT_DETACH), 0);
}

// The session is waited for: an unannounced hold is possible.
TEST_F(RestartTest, SlotsAreNotReusedDuringTheRecoveryGrace) {
  std::vector<protocol::BlockHash> many;
  for (std::uint64_t n = 1; n <= 200; ++n) many.push_back({n, n});
  live_with(many);
  const LivingSession engine(directory_ + "/larder.lock.7", {1, 2});
  start();
  Client client(config_.socket);
  client.attach();
  EXPECT_GT(client.welcome().session_number, 7U) << "the number of one that lives";
  const std::uint32_t handle = client.open_namespace("a: 1");
  const auto stored = [&](std::uint64_t n) {
    const protocol::Grant grant = client.reserve(handle, {{n, 1}})[0];
    // half of the arena at most may be granted to one
    if (grant.status == 0) client.commit(grant, 1);
    return grant.status == 0;
  };
  std::uint64_t n = 1000;
  while (stored(n)) ++n;
  const std::uint64_t kept = stats().restored_chunks;
  EXPECT_EQ(files("index.").size(), 2U) << "engines look up in the earlier one";
  pass_ms(1500, {&client});
  EXPECT_FALSE(stored(n));
  EXPECT_EQ(stats().evicted_capacity, 0U);
  pass_ms(1500, {&client});
  EXPECT_TRUE(stored(n));
  EXPECT_GT(kept, 0U);
  EXPECT_EQ(files("index.").size(), 1U);
  EXPECT_TRUE(engine.known()) << "its unfinished write is another matter";
}

TEST_F(RestartTest, LockFileOfDeadEngineIsRemovedAtOnce) {
  live_with({{1, 1}});
  LivingSession engine(directory_ + "/larder.lock.7", {1, 2});
  std::ofstream(directory_ + "/larder.lock.8");
  start();
  EXPECT_TRUE(engine.known());
  EXPECT_FALSE(fs::exists(directory_ + "/larder.lock.8"));
  engine.end();
  EXPECT_TRUE(wait([&] { return !engine.known(); }));
  EXPECT_TRUE(wait([&] { return files("index.").size() == 1; }))
      << "no engine is waited for any more";
}

// The last larderd ended between ATTACHED and the answer about the engine's session there.
// covers F-007
TEST_F(RestartTest, EngineIsKnownByItsLastAndUnconfirmedSessions) {
  for (const auto& [token, epoch] : {std::pair{11U, 12U}, std::pair{1U, 2U}}) {
    live_with({{1, 1}});
    const LivingSession engine(directory_ + "/larder.lock.7", {11, 12, 1, 2});
    start();
    EXPECT_EQ(files("index.").size(), 2U);
    Client past(config_.socket), client(config_.socket);
    past.had(token, epoch);
    client.attach_after(&past, {});
    EXPECT_TRUE(wait([&] { return files("index.").size() == 1; })) << "it has come back";
    stop();
    EXPECT_TRUE(Sidecar::free_memory(config_).ok());
  }
}

TEST_F(RestartTest, EngineOfOlderLarderdIsKnownByItsSingleSession) {
  live_with({{1, 1}});
  const LivingSession engine(directory_ + "/larder.lock.7", {1, 2});
  fs::resize_file(directory_ + "/larder.lock.7", 16);
  start();
  Client past(config_.socket), client(config_.socket);
  past.had(1, 2);
  client.attach_after(&past, {});
  EXPECT_TRUE(wait([&] { return files("index.").size() == 1; }));
}

TEST_F(RestartTest, HeldLockFileOfReturnedEngineIsKept) {
  live_with({{1, 1}});
  LivingSession engine(directory_ + "/larder.lock.7", {1, 2});
  start();
  Client past(config_.socket), client(config_.socket);
  past.had(1, 2);
  client.attach_after(&past, {});
  ASSERT_TRUE(wait([&] { return files("index.").size() == 1; }));
  EXPECT_TRUE(engine.known())
      << "it may never learn that it has come back, and the next larderd must await it";
  engine.end();
  EXPECT_TRUE(wait([&] { return !engine.known(); }));
}

// covers F-007
TEST_F(RestartTest, EngineLostAgainIsAwaitedAgain) {
  live_with({{1, 1}});
  const LivingSession engine(directory_ + "/larder.lock.7", {1, 2});
  LivingSession another(directory_ + "/larder.lock.8", {3, 4});
  start();
  Client past(config_.socket), client(config_.socket), next(config_.socket);
  past.had(1, 2);
  client.attach_after(&past, {});
  ASSERT_TRUE(wait([&] { return stats().sessions_opened == 1; }));
  client.close();
  ASSERT_TRUE(wait([&] { return stats().sessions_ended == 1; }));
  another.end();
  ASSERT_TRUE(wait([&] { return !another.known(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // some ticks
  EXPECT_EQ(files("index.").size(), 2U) << "its holds are not announced";
  next.attach_after(&past, {});
  EXPECT_TRUE(wait([&] { return files("index.").size() == 1; }));
}

// covers F-012
TEST_F(RestartTest, FreeMemoryIsRefusedWhileLarderdRuns) {
  live_with({{1, 1}});
  start();
  EXPECT_EQ(Sidecar::free_memory(config_).code(), Code::kAlreadyExists);
  EXPECT_TRUE(holds({1, 1}));
  stop();
  EXPECT_TRUE(Sidecar::free_memory(config_).ok());
  EXPECT_TRUE(files("").empty()) << files("").front();
  EXPECT_TRUE(Sidecar::free_memory(config_).ok()) << "twice is once";
}

// A failed start costs the next one no chunk.
TEST_F(RestartTest, RefusedStartKeepsChunksForTheNextStart) {
  live_with({{1, 1}});
  const std::string socket = std::exchange(config_.socket, "/proc/larder.sock");
  EXPECT_FALSE(refused().ok());
  config_.socket = socket;
  start();
  EXPECT_TRUE(holds({1, 1}));
}

// The files of a larderd of each restart format, in tests/golden/restart_format_N: index, journal,
// and the first pages of the arena. LARDER_TEST_WRITE_GOLDEN=1 writes a missing fixture of the
// present format; an existing one is never written anew.
constexpr std::uint64_t kGoldenArenaBytes = 64 << 10;

TEST_F(RestartTest, EveryGoldenFormatIsOpenedOrRefusedByName) {
  const fs::path golden = fs::path(GOLDEN_FOLDER);
  const fs::path newest = golden / ("restart_format_" + std::to_string(protocol::kRestartFormat));
  if (std::getenv("LARDER_TEST_WRITE_GOLDEN") != nullptr && !fs::exists(newest)) {
    live_with({{1, 1}, {2, 2}});
    fs::create_directories(newest);
    for (const char* kind : {"arena", "index", "namespaces"})
      for (const std::string& path : files(kind)) fs::copy(path, newest);
    fs::resize_file(newest / "larder.arena", kGoldenArenaBytes);
    for (const char* kind : {"arena", "index", "namespaces"})
      for (const std::string& path : files(kind)) fs::remove(path);
  }
  for (std::uint32_t format = 0; format <= protocol::kRestartFormat; ++format) {
    SCOPED_TRACE(format);
    const fs::path folder = golden / ("restart_format_" + std::to_string(format));
    ASSERT_TRUE(fs::exists(folder)) << "a format without its fixture";
    for (const auto& file : fs::directory_iterator(folder)) fs::copy(file.path(), directory_);
    const std::string arena = directory_ + "/larder.arena";
    std::ofstream(arena, std::ios::binary | std::ios::app)
        << std::string((1 << 20) - fs::file_size(arena), '\0');
    start();
    const bool warm = format >= 1;
    EXPECT_EQ(stats().restored_chunks, warm ? 2U : 0U);
    EXPECT_EQ(holds({1, 1}), warm);
    EXPECT_EQ(holds({2, 2}), warm);
    stop();
    EXPECT_TRUE(Sidecar::free_memory(config_).ok());
  }
}

// For one text with two reported layouts, each chunk goes to its own.
// covers F-102
TEST_F(RestartTest, EachLayoutFindsItsOwnChunks) {
  start();
  {
    Client gone(config_.socket), one(config_.socket), other(config_.socket);
    for (Client* client : {&gone, &one, &other}) client->attach();
    for (int i = 0; i < 3; ++i)
      gone.open_namespace("gone: " + std::to_string(i), 4096, nullptr, 10 + i);
    for (int i = 0; i < 3; ++i) gone.close_namespace(10 + i);
    gone.open_namespace("a: 2");  // in a place that had others
    const std::uint32_t small = one.open_namespace("a: 1", 512),
                        large = other.open_namespace("a: 1");
    EXPECT_NE(protocol::namespace_generation(small), 0U);
    one.commit(one.reserve(small, {{1, 1}}).at(0), 7);
    other.commit(other.reserve(large, {{2, 2}}).at(0), 8);
    ASSERT_TRUE(wait([&] { return stats().slots_committed == 2; }));
  }
  stop();
  start();
  EXPECT_EQ(stats().restored_chunks, 2U);
  Client one(config_.socket), other(config_.socket);
  one.attach();
  other.attach();
  const std::uint32_t large = other.open_namespace("a: 1"), small = one.open_namespace("a: 1", 512);
  EXPECT_TRUE(one.index().find({{1, 1}, small, 0, 0}));
  EXPECT_TRUE(other.index().find({{2, 2}, large, 0, 0}));
  EXPECT_FALSE(other.index().find({{1, 1}, large, 0, 0}));
}

}  // namespace
}  // namespace larder::loop::testing_support
