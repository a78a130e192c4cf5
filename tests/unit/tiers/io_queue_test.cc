// Both ways of I/O, one suite: bytes, short ends, wake-ups.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>

#include "shim/base/fd.h"
#include "sidecar/tiers/disk/device.h"
#include "sidecar/tiers/disk/pool_queue.h"
#include "sidecar/tiers/disk/uring_queue.h"

namespace larder::disk {
namespace {

struct Kind {
  const char* name;
  bool uring, registered;
};

class IoQueueTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    file_ = Fd(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(file_.valid());
    ASSERT_EQ(::ftruncate(file_.get(), 1 << 20), 0);
    if (!GetParam().uring) {
      queue_ = make_pool_queue();
      return;
    }
    Result<OpenedUring> opened =
        open_uring_queue(GetParam().registered ? memory_.span() : std::span<std::byte>{});
    if (!opened.ok()) GTEST_SKIP() << opened.status().to_string();
    if (GetParam().registered && !opened->unregistered.empty())
      GTEST_SKIP() << opened->unregistered;
    queue_ = std::move(opened->queue);
  }
  // The request's errno.
  int run(IoRequest::Kind kind, std::uint64_t offset, std::span<std::byte> first,
          std::span<std::byte> second = {}) {
    queue_->submit({kind, file_.get(), offset, {first, second}, ++tag_});
    std::vector<IoResult> results;
    for (int i = 0; i < 100 && results.empty(); ++i) queue_->wait(100'000'000, results);
    if (results.size() != 1 || results[0].tag != tag_) return -1;
    return results[0].error;
  }

  AlignedBytes memory_{64 * 1024};
  Fd file_;
  std::unique_ptr<IoQueue> queue_;
  std::uint64_t tag_ = 0;
};

TEST_P(IoQueueTest, MovesBothPartsAndSyncs) {
  AlignedBytes head(4096), read_head(4096);
  std::memset(head.span().data(), 1, 4096);
  std::memset(memory_.span().data(), 2, 32768);
  ASSERT_EQ(run(IoRequest::Kind::kWrite, 8192, head.span(), memory_.span().first(32768)), 0);
  ASSERT_EQ(run(IoRequest::Kind::kSync, 0, {}), 0);
  std::memset(memory_.span().data(), 0, 65536);
  ASSERT_EQ(run(IoRequest::Kind::kRead, 8192, read_head.span(), memory_.span().last(32768)), 0);
  EXPECT_EQ(std::memcmp(read_head.span().data(), head.span().data(), 4096), 0);
  for (const std::byte byte : memory_.span().last(32768)) ASSERT_EQ(byte, std::byte{2});
  for (const std::byte byte : memory_.span().first(32768)) ASSERT_EQ(byte, std::byte{0});
}

TEST_P(IoQueueTest, AccessBehindTheEndIsAnError) {
  EXPECT_EQ(run(IoRequest::Kind::kRead, (1 << 20) - 4096, memory_.span().first(4096),
                memory_.span().last(4096)),
            EIO);
  EXPECT_EQ(run(IoRequest::Kind::kRead, (1 << 20) - 4096, memory_.span().first(8192)), EIO);
}

TEST_P(IoQueueTest, ErrorReturnsItsErrno) {
  file_ = Fd(::open("/tmp", O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(run(IoRequest::Kind::kRead, 0, memory_.span().first(4096)), EISDIR);
}

TEST_P(IoQueueTest, ManyRequestsInFlightAllEnd) {
  for (std::uint64_t i = 0; i < kMaxIoInFlight; ++i)
    queue_->submit({IoRequest::Kind::kWrite,
                    file_.get(),
                    i % 200 * 4096,
                    {memory_.span().first(4096), {}},
                    i});
  std::vector<IoResult> results;
  for (int i = 0; i < 1000 && results.size() < kMaxIoInFlight; ++i)
    queue_->wait(10'000'000, results);
  ASSERT_EQ(results.size(), kMaxIoInFlight);
  for (const IoResult& result : results) EXPECT_EQ(result.error, 0);
}

TEST_P(IoQueueTest, WakeOrTimeoutEndsAWait) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<IoResult> results;
  for (int round = 0; round < 3; ++round) {
    std::jthread other([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      queue_->wake();
    });
    queue_->wait(20'000'000'000, results);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  queue_->wait(1'000'000, results);
  EXPECT_TRUE(results.empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, IoQueueTest,
                         testing::Values(Kind{"io_uring", true, false},
                                         Kind{"io_uring_registered", true, true},
                                         Kind{"threads", false, false}),
                         [](const auto& kind) { return kind.param.name; });

// Of this thread alone, until the thread's end. False: the machine has no such filters.
bool refuse_system_call(unsigned number, int error) {
  std::array<sock_filter, 4> filter{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Some profiles of containers let a ring be made and not be entered.
// covers F-156
TEST(IoQueueChoiceTest, PartlyRefusedIoUringFallsBackToThreads) {
  const std::pair<unsigned, const char*> calls[] = {{__NR_io_uring_setup, "io_uring_queue_init"},
                                                    {__NR_io_uring_enter, "io_uring_enter"}};
  for (const auto& [call, name] : calls) {
    bool filtered = false;
    std::string chosen, why;
    std::thread([&, number = call] {
      filtered = refuse_system_call(number, EPERM);
      const OpenedQueue opened = open_io_queue({});
      chosen = opened.queue->name();
      why = opened.fallback;
    }).join();
    if (!filtered) GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(chosen, "threads") << name;
    EXPECT_THAT(why, testing::HasSubstr(name));
  }
}

}  // namespace
}  // namespace larder::disk
