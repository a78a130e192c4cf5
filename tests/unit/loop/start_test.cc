// Starting: refusals, leftovers of an earlier life, descriptors for engines.
#include <linux/mempolicy.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <fstream>

#include "shim/protocol/index_layout.h"
#include "sidecar/memory/numa.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::loop::testing_support {
namespace {

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename());
  return names;
}

bool any_starts_with(const std::vector<std::string>& names, const std::string& start) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.starts_with(start); });
}

class StartTest : public SidecarTest {
 protected:
  Status refused() {
    Result<std::unique_ptr<Sidecar>> sidecar = Sidecar::start(config_, clock_);
    return sidecar.ok() ? Status() : sidecar.status();
  }
};

TEST_F(StartTest, IsReadyAtOnceForAnySize) {
  config_.memory.size_bytes = 2ULL << 30;
  Result<std::unique_ptr<Sidecar>> sidecar = Sidecar::start(config_, clock_);
  ASSERT_TRUE(sidecar.ok()) << sidecar.status().to_string();
  EXPECT_TRUE((*sidecar)->ready());
  // of its first moment: the loop that renews the beat does not run yet
  const stats::Stats at_start = (*sidecar)->snapshot();
  EXPECT_LT(at_start.touched_bytes, at_start.arena_bytes) << "it waited for its memory";
}

// A missing page would be a SIGBUS in the first reader, the engine included, once the directory is
// full.
// covers F-014
TEST_F(StartTest, IndexPagesArePresentBeforeEnginesRead) {
  start();
  for (const std::string& name : files_in(directory_)) {
    struct stat info {};
    ASSERT_EQ(::stat((directory_ + "/" + name).c_str(), &info), 0);
    if (name.starts_with("larder.index.")) {
      EXPECT_GE(info.st_blocks * 512, info.st_size);
    }
  }
}

// covers F-112
TEST_F(StartTest, TooLittleSpaceIsReportedWithFiguresAndRemedy) {
  config_.memory.size_bytes = 1ULL << 50;
  const Status status = refused();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.text().find("the cache needs 107"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("--shm-size"), std::string::npos);
  EXPECT_FALSE(any_starts_with(files_in(directory_), "larder.arena"));
}

// After a restart the engines map the old arena until their first look: its space comes back a
// moment later.
// covers F-013
TEST_F(StartTest, StartWaitsForSpaceHeldByEngines) {
  const std::string small = directory_ + "/small";
  std::filesystem::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=3M") != 0)
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  config_.memory.directory = small;
  config_.memory.size_bytes = 2 << 20;
  std::ofstream(small + "/full") << std::string(2 << 20, 'x');
  std::thread engine([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::filesystem::remove(small + "/full");
  });
  const Status status = refused();
  engine.join();
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(::umount2(small.c_str(), MNT_DETACH), 0);
}

TEST_F(StartTest, MissingDirectoryIsReported) {
  config_.memory.directory = directory_ + "/absent";
  EXPECT_EQ(refused().text(),
            "memory.directory " + config_.memory.directory +
                " must be a folder that larderd may write in: No such file or directory");
}

// Two users of one machine, both with the defaults.
// covers F-118
TEST_F(StartTest, NameOwnedByOtherUserIsReported) {
  const std::string owner = directory_ + "/larder.owner";
  std::ofstream(owner) << "";
  ASSERT_EQ(::chmod(owner.c_str(), 0), 0);
  // of this thread; without the right, the mode alone refuses
  const int before = ::setfsuid(65534);
  const Status status = refused();
  ::setfsuid(static_cast<uid_t>(before));
  EXPECT_EQ(status.text(), owner +
                               " belongs to another user's larderd: give this one another pool, or "
                               "memory.shm_name and socket");
}

// covers F-113
TEST_F(StartTest, HugePagesWithoutHugetlbfsAreRefusedUnlessPreferred) {
  config_.memory.hugepages = config::Hugepages::k2Mi;
  config_.memory.hugepage_directory = directory_;
  EXPECT_NE(refused().text().find("no hugetlbfs"), std::string::npos);
  config_.memory.hugepages = config::Hugepages::kPrefer2Mi;
  start();
  ASSERT_EQ(stats().fallbacks.size(), 1U);
  EXPECT_EQ(stats().fallbacks[0].kind, "hugepages");
  EXPECT_TRUE(stats().fallbacks[0].why.starts_with("4 KiB pages: ")) << stats().fallbacks[0].why;
  EXPECT_EQ(stats().arena_page_bytes, 4096U);
}

// A hugetlbfs of its own, of pages of 2M or 1G, with some more free pages, if this process may make
// one; the machine is restored.
class HugePages {
 public:
  HugePages(std::string directory, const std::string& size, std::uint64_t more)
      : directory_(std::move(directory)),
        pool_("/sys/kernel/mm/hugepages/hugepages-" +
              std::string(size == "1G" ? "1048576kB/" : "2048kB/")),
        before_(read("nr_hugepages")) {
    std::filesystem::create_directories(directory_);
    if (more != 0) std::ofstream(pool_ + "nr_hugepages") << before_ + more;
    mounted_ =
        ::mount("none", directory_.c_str(), "hugetlbfs", 0, ("pagesize=" + size).c_str()) == 0;
  }
  ~HugePages() {
    if (mounted_) ::umount2(directory_.c_str(), MNT_DETACH);
    std::ofstream(pool_ + "nr_hugepages") << before_;
  }
  bool mounted() const { return mounted_; }
  std::uint64_t free() const {
    return mounted_ ? read("free_hugepages") - read("resv_hugepages") : 0;
  }

 private:
  std::uint64_t read(const char* file) const {
    std::uint64_t number = 0;
    std::ifstream(pool_ + file) >> number;
    return number;
  }
  const std::string directory_;
  const std::string pool_;
  const std::uint64_t before_;
  bool mounted_ = false;
};

// The arena really stands on huge pages, engines map the pages, and one page too many is refused
// with figures.
TEST_F(StartTest, HugePages) {
  config_.memory.hugepage_directory = directory_ + "/huge";
  const HugePages pages(config_.memory.hugepage_directory, "2M", 8);
  const std::uint64_t free_pages = pages.free();
  if (free_pages == 0) GTEST_SKIP() << "needs root, to mount a hugetlbfs and raise vm.nr_hugepages";
  config_.memory.hugepages = config::Hugepages::k2Mi;
  config_.memory.shm_name = "larder-test-" + std::to_string(::getpid());
  config_.memory.size_bytes = (free_pages + 1) << 21;
  EXPECT_NE(refused().text().find("sysctl vm.nr_hugepages="), std::string::npos);
  EXPECT_NE(refused().text().find(", or memory.hugepages: prefer to start without them"),
            std::string::npos);
  config_.memory.hugepages = config::Hugepages::kPrefer2Mi;
  start();
  EXPECT_EQ(stats().fallbacks.at(0).why.find("prefer"), std::string::npos)
      << "to who prefers already";
  stop();
  config_.memory.hugepages = config::Hugepages::k2Mi;
  config_.memory.size_bytes = (free_pages << 21) - 4096;  // rounded up to whole pages
  start();
  EXPECT_EQ(stats().arena_page_bytes, 2U << 20);
  EXPECT_EQ(stats().arena_bytes, free_pages << 21);
  Client client(config_.socket);
  client.attach();
  client.arena()[stats().arena_bytes - 1] = std::byte{1};
  stop();
}

// Most machines have no such pages to give, so most people meet the refusals.
// covers F-114
TEST_F(StartTest, MissingGibibytePagesAreReportedWithFiguresAndBootLine) {
  config_.memory.hugepages = config::Hugepages::k1Gi;
  config_.memory.hugepage_directory = directory_;
  const std::string no_mount = refused().text();
  if (no_mount.find("this machine has no huge pages of 1 GiB") != std::string::npos)
    GTEST_SKIP() << no_mount;
  EXPECT_NE(no_mount.find("is no hugetlbfs of 1 GiB pages: mkdir -p "), std::string::npos)
      << no_mount;
  EXPECT_NE(no_mount.find("mount -t hugetlbfs -o pagesize=1G none "), std::string::npos)
      << no_mount;

  config_.memory.hugepage_directory = directory_ + "/small";
  const HugePages small(config_.memory.hugepage_directory, "2M", 0);
  if (!small.mounted()) GTEST_SKIP() << "needs the right to mount a hugetlbfs";
  const std::string other_size = refused().text();
  EXPECT_NE(other_size.find("is no hugetlbfs of 1 GiB pages (its pages have 2 MiB): mkdir -p " +
                            directory_ + "/small-1G"),
            std::string::npos)
      << other_size;

  config_.memory.hugepage_directory = directory_ + "/large";
  const HugePages large(config_.memory.hugepage_directory, "1G", 0);
  const std::uint64_t free = large.free();
  config_.memory.size_bytes = (free + 1) << 30;
  const Status too_few = refused();
  EXPECT_EQ(too_few.code(), Code::kResourceExhausted);
  const std::string figures =
      std::to_string(free) + " of " + std::to_string(free + 1) + " huge pages of 1 GiB are free: ";
  EXPECT_TRUE(too_few.text().starts_with(figures)) << too_few.text();
  EXPECT_NE(too_few.text().find("kernel command line: hugepagesz=1G hugepages="), std::string::npos)
      << too_few.text();
  EXPECT_FALSE(any_starts_with(files_in(config_.memory.hugepage_directory), "larder.arena"));

  const memory::NumaFacts facts = memory::read_numa_facts("");
  if (facts.with_memory.empty() ||
      memory::memory_of_nodes({facts.with_memory.front()}) < config_.memory.size_bytes)
    return;
  config_.memory.numa = std::to_string(facts.with_memory.front());
  const std::string of_node = refused().text();
  EXPECT_NE(
      of_node.find("kernel command line: hugepagesz=1G hugepages=" + config_.memory.numa + ":"),
      std::string::npos)
      << of_node;
}

TEST_F(StartTest, TooSmallNumaNodeIsReported) {
  const memory::NumaFacts facts = memory::read_numa_facts("");
  if (facts.with_memory.empty()) GTEST_SKIP() << "this kernel knows no NUMA nodes";
  config_.memory.numa = std::to_string(facts.with_memory.front());
  config_.memory.size_bytes = 1ULL << 44;
  EXPECT_NE(refused().text().find(
                "the cache needs 16777216 MiB: lower memory.size, or memory.numa: none"),
            std::string::npos)
      << refused().text();
}

TEST_F(StartTest, PagesOfOneGibibyte) {
  config_.memory.hugepage_directory = directory_ + "/huge";
  const HugePages pages(config_.memory.hugepage_directory, "1G", 1);
  if (pages.free() == 0) GTEST_SKIP() << "no page of 1 GiB can be reserved here";
  config_.memory.hugepages = config::Hugepages::k1Gi;
  config_.memory.size_bytes = 1 << 20;  // rounded up to one page
  start();
  EXPECT_EQ(stats().arena_page_bytes, 1ULL << 30);
  EXPECT_EQ(stats().arena_bytes, 1ULL << 30);
  Client client(config_.socket);
  client.attach();
  client.arena()[stats().arena_bytes - 1] = std::byte{1};
  stop();
}

// covers F-115
TEST_F(StartTest, MissingNumaNodeIsRefused) {
  config_.memory.numa = "999";
  const Status status = refused();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(status.text().starts_with(
      "memory.numa 999: this machine has no such node with memory; nodes with memory here: "))
      << status.text();
  EXPECT_FALSE(any_starts_with(files_in(directory_), "larder.arena"));
}

// The binding belongs to the file: a later toucher of a page, engines included, gets the page from
// that node.
TEST_F(StartTest, TheArenaIsBoundToItsNumaNode) {
  const memory::NumaFacts facts = memory::read_numa_facts("");
  if (facts.with_memory.empty()) GTEST_SKIP() << "this kernel knows no NUMA nodes";
  const unsigned node = facts.with_memory.front();
  config_.memory.numa = std::to_string(node);
  if (const Status status = refused(); status.code() == Code::kPermissionDenied)
    GTEST_SKIP() << status.text();
  start();
  EXPECT_EQ(stats().arena_numa, "node " + std::to_string(node));
  Client client(config_.socket);
  client.attach();
  int mode = -1;
  unsigned long nodes[16] = {};
  ASSERT_EQ(
      ::syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof(nodes), client.arena(), MPOL_F_ADDR),
      0);
  EXPECT_EQ(mode, MPOL_BIND);
  EXPECT_EQ(nodes[node / 64], 1UL << (node % 64));
}

TEST_F(StartTest, WithoutNumaMemoryIsUnbound) {
  start();
  EXPECT_EQ(stats().arena_numa, "none");
}

// covers F-118
TEST_F(StartTest, NameOfRunningSidecarIsRefused) {
  start();
  const Status status = refused();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_NE(status.text().find("memory.shm_name"), std::string::npos);
  Client client(config_.socket);
  client.attach();  // the first one is not disturbed
}

// covers F-118
TEST_F(StartTest, ListeningSocketIsRefusedAndStaleSocketReplaced) {
  start();
  config_.memory.shm_name = "second";
  EXPECT_EQ(refused().code(), Code::kAlreadyExists);
  EXPECT_FALSE(any_starts_with(files_in(directory_), "second.arena"));
  stop();

  const Fd stale(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, config_.socket.data(), config_.socket.size());
  ASSERT_EQ(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  start();
  Client client(config_.socket);
  EXPECT_TRUE(client.connected());
}

TEST_F(StartTest, FileAtTheSocketPathIsKept) {
  config_.socket = directory_ + "/precious";
  std::ofstream(config_.socket) << "data";
  const Status status = refused();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_NE(
      status.text().find("a file that is no socket stands there; remove it or choose another"),
      std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(config_.socket));
}

TEST_F(StartTest, SocketOfOtherTypeIsKept) {
  config_.socket = directory_ + "/other.sock";
  const Fd admin(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, config_.socket.data(), config_.socket.size());
  ASSERT_EQ(::bind(admin.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(admin.get(), 1), 0);
  EXPECT_EQ(refused().text(), "socket " + config_.socket +
                                  ": somebody else's socket stands there; choose another socket: "
                                  "Protocol wrong type for socket");
}

TEST_F(StartTest, SocketFailureNamesTheVariable) {
  config_.socket = "/proc/larder.sock";
  EXPECT_NE(refused().text().find(
                "cannot be made (set LARDER_SOCKET for larderd and engines to another): "),
            std::string::npos);
}

TEST_F(StartTest, ColdStartRetiresFilesOfAKilledSidecar) {
  const protocol::IndexSizes sizes = protocol::index_sizes(1, 2);
  const std::string old_index = directory_ + "/larder.index.17";
  {
    std::vector<char> bytes(sizes.total_bytes);
    auto* header = reinterpret_cast<protocol::IndexHeader*>(bytes.data());
    header->magic = protocol::kIndexMagic;
    header->generation_high_water = 1ULL << 59;  // above this machine's clock
    std::ofstream(old_index, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::ofstream(directory_ + "/larder.arena") << "old";
  std::ofstream(directory_ + "/larder.lock.5");
  std::ofstream(directory_ + "/larder.index.notours");
  const Fd mapped(::open(old_index.c_str(), O_RDONLY));

  start();
  protocol::IndexHeader header{};
  ASSERT_EQ(::pread(mapped.get(), static_cast<void*>(&header), sizeof(header), 0),
            static_cast<ssize_t>(sizeof(header)));
  EXPECT_EQ(header.dead.load(), 1U);
  const auto names = files_in(directory_);
  EXPECT_FALSE(any_starts_with(names, "larder.index.17"));
  EXPECT_FALSE(any_starts_with(names, "larder.lock."));
  EXPECT_TRUE(any_starts_with(names, "larder.index.notours"));
  Client client(config_.socket);
  client.attach();
  const auto grants = client.reserve(client.open_namespace("a: 1"), {{1, 1}});
  EXPECT_GT(grants[0].generation, 1ULL << 59);
}

TEST_F(StartTest, HugePageArenaOfKilledSidecarIsRemovedWithoutHugePages) {
  config_.memory.hugepage_directory = directory_ + "/huge";
  std::filesystem::create_directory(config_.memory.hugepage_directory);
  const std::string old = config_.memory.hugepage_directory + "/larder.arena";
  std::ofstream(old) << "old";
  start();
  EXPECT_FALSE(std::filesystem::exists(old));
}

// One with the same name in another memory.directory.
TEST_F(StartTest, HugePageArenaOfRunningSidecarIsKept) {
  config_.memory.hugepage_directory = directory_ + "/huge";
  std::filesystem::create_directory(config_.memory.hugepage_directory);
  const std::string theirs = config_.memory.hugepage_directory + "/larder.arena";
  const Fd held(::open(theirs.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  start();
  EXPECT_TRUE(std::filesystem::exists(theirs));
}

TEST_F(StartTest, StopWithoutKeepingLeavesADeadIndexAndNoFiles) {
  config_.memory.keep_on_exit = false;
  start();
  Client client(config_.socket);
  client.attach();
  stop();
  EXPECT_EQ(client.receive_error().code(), Code::kUnavailable);
  EXPECT_TRUE(client.index().gone());
  client.arena()[0] = std::byte{1};  // the mapping stays good
  const auto names = files_in(directory_);
  EXPECT_FALSE(any_starts_with(names, "larder.owner"));
  EXPECT_FALSE(any_starts_with(names, "larder.arena"));
  EXPECT_FALSE(any_starts_with(names, "larder.index."));
  EXPECT_FALSE(any_starts_with(names, "larder.namespaces."));
  EXPECT_FALSE(any_starts_with(names, "larder.lock."));
  EXPECT_FALSE(std::filesystem::exists(config_.socket));
}

TEST_F(StartTest, EnginesCanNeitherWriteTheIndexNorResizeTheirRegion) {
  start();
  Client client(config_.socket);
  ASSERT_TRUE(client.hello().ok());
  Result<protocol::Packet> packet = client.receive();
  ASSERT_TRUE(packet.ok());
  EXPECT_FALSE(Mapping::map_shared(packet->fds[1], 4096, PROT_READ | PROT_WRITE, "index").ok());
  EXPECT_NE(::ftruncate(packet->fds[2].get(), 0), 0);
  EXPECT_NE(::ftruncate(packet->fds[2].get(), 1 << 24), 0);
}

TEST_F(StartTest, TheSocketHasItsMode) {
  config_.socket_mode = 0600;
  start();
  EXPECT_EQ(std::filesystem::status(config_.socket).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

}  // namespace
}  // namespace larder::loop::testing_support
