// The errors of a start with an unusable disk, and the chunks found after a start with a usable
// one.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "tests/unit/tiers/disk_world.h"

namespace larder::disk::testing_support {
namespace {

using testing::HasSubstr;

class DiskStartTest : public DiskWorld {};

// covers F-128
TEST_F(DiskStartTest, MissingDirectoryIsReported) {
  options_.path += "/not-there";
  EXPECT_THAT(open().text(), HasSubstr("disk.path: " + options_.path + " is not a directory"));
  options_.path = std::filesystem::path(options_.path).parent_path();
}

TEST_F(DiskStartTest, FileInsteadOfDirectoryIsReported) {
  const std::string whole = options_.path;
  std::fclose(std::fopen((whole + "/file").c_str(), "w"));
  options_.path = whole + "/file";
  EXPECT_THAT(open().text(), HasSubstr("disk.path: " + options_.path + " is not a directory"));
  options_.path = whole;
}

// covers F-128
TEST_F(DiskStartTest, UnwritableDirectoryIsReported) {
  env_.faults.fail_call = 0;
  env_.faults.error = EROFS;
  const Status status = open();
  EXPECT_THAT(status.text(), HasSubstr("disk.path: " + options_.path + " cannot be written"));
  EXPECT_THAT(status.text(), HasSubstr("Read-only file system"));
}

// covers F-128
TEST_F(DiskStartTest, TooSmallSizeReportsTheMinimum) {
  options_.size_bytes = 8 << 20;
  EXPECT_THAT(open().text(),
              HasSubstr("disk.size: 8 MiB is too small, the disk tier needs at least 16.2 MiB"));
  EXPECT_FALSE(std::filesystem::exists(options_.path + "/larder"))
      << "no file is made for the tier";
}

TEST_F(DiskStartTest, FullFileSystemIsReported) {
  options_.size_bytes = 1ULL << 50;
  options_.region_bytes = 1ULL << 40;
  const Status status = open();
  EXPECT_THAT(status.text(), HasSubstr("disk.size: "));
  EXPECT_THAT(status.text(), HasSubstr("cannot be reserved in " + options_.path));
  options_.size_bytes = 34 << 20;
  options_.region_bytes = kRegionBytes;
  EXPECT_TRUE(open().ok()) << "and no leftover of the attempt stands in the way";
}

// covers F-129
TEST_F(DiskStartTest, SecondTierIsRefusedWithTheNameOfTheFirst) {
  options_.owner = "larderd of pool llama";
  ASSERT_TRUE(open().ok());
  FaultyEnv other_env;
  const Result<std::unique_ptr<tiers::Tier>> second = open_disk_tier(other_env, clock_, options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kAlreadyExists);
  EXPECT_EQ(second.status().text(), "disk.path: " + options_.path +
                                        "/larder is in use by larderd of pool llama, process " +
                                        std::to_string(::getpid()));
  ASSERT_TRUE(loop_->put(1).ok()) << "the first goes on";
  EXPECT_TRUE(loop_->get(1).ok());
  EXPECT_TRUE(open().ok()) << "after its end there is no lock left";
}

// covers F-128
TEST_F(DiskStartTest, FolderIsPrivate) {
  ASSERT_TRUE(open().ok());
  struct stat info {};
  ASSERT_EQ(::stat((options_.path + "/larder").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat(file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  close();
  ASSERT_EQ(::chmod((options_.path + "/larder").c_str(), 0755), 0);
  EXPECT_THAT(open().text(), HasSubstr("can be entered by other users"));
  ASSERT_EQ(::chmod((options_.path + "/larder").c_str(), 0700), 0);
}

TEST_F(DiskStartTest, SymlinkInsteadOfTheFolderIsRefused) {
  std::filesystem::create_directory(options_.path + "/elsewhere");
  std::filesystem::create_directory_symlink(options_.path + "/elsewhere",
                                            options_.path + "/larder");
  EXPECT_THAT(open().text(), HasSubstr("is not a directory"));
}

TEST_F(DiskStartTest, SizeIsReservedAndNeverExceeded) {
  ASSERT_TRUE(open().ok());
  EXPECT_LE(disk_usage(), options_.size_bytes);
  EXPECT_GE(disk_usage(), options_.size_bytes * 9 / 10) << "and it is reserved";
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(loop_->put(i).ok());
    ASSERT_LE(disk_usage(), options_.size_bytes);
  }
  ASSERT_TRUE(open().ok());
  EXPECT_LE(disk_usage(), options_.size_bytes);
}

TEST_F(DiskStartTest, ChangedSizeKeepsFittingChunks) {
  ASSERT_TRUE(open().ok());
  for (std::uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(loop_->put(i).ok());
  options_.size_bytes = 26 << 20;
  ASSERT_TRUE(open().ok());
  EXPECT_LE(disk_usage(), options_.size_bytes);
  EXPECT_EQ(tier_->counters().chunks, 9U);
  options_.size_bytes = 50 << 20;
  ASSERT_TRUE(open().ok());
  EXPECT_GT(tier_->counters().capacity_bytes, 40U << 20);
  for (std::uint64_t i = 0; i < 9; ++i) EXPECT_TRUE(loop_->get(i).ok());
}

// covers F-132
TEST_F(DiskStartTest, RefusedDirectIoFallsBackToThePageCache) {
  env_.faults.refuse_direct = true;
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(loop_->put(1).ok());
  EXPECT_TRUE(loop_->get(1).ok());
}

// A device that takes requests and ends no request, even at the end of the process.
struct HungEnv final : Env {
  std::mutex mutex;
  std::condition_variable changed;
  bool released = false, ended = false;

  struct Queue final : IoQueue {
    explicit Queue(HungEnv& the_env) : env(the_env) {}
    ~Queue() override {
      std::unique_lock lock(env.mutex);
      env.changed.wait(lock, [this] { return env.released; });
      env.ended = true;
      env.changed.notify_all();
    }
    void submit(const IoRequest&) override {}
    void wait(std::uint64_t, std::vector<IoResult>&) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    void wake() override {}
    const char* name() const override { return "hung"; }
    HungEnv& env;
  };
  OpenedQueue open_queue(const IoMemory&) override { return {std::make_unique<Queue>(*this), ""}; }
};
struct HurriedClock final : base::Clock {
  std::uint64_t now_ns() const override { return base::MonotonicClock().now_ns() * 1000; }
};

TEST_F(DiskStartTest, HungDeviceFailsTheStartInTime) {
  ASSERT_TRUE(open().ok());  // so that there is a superblock to read
  close();
  HungEnv hung;
  HurriedClock hurried;
  std::future<Status> start = std::async(
      std::launch::async, [&] { return open_disk_tier(hung, hurried, options_).status(); });
  const bool answered = start.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  {
    std::unique_lock lock(hung.mutex);
    hung.released = true;
    hung.changed.notify_all();
    hung.changed.wait(lock, [&] { return hung.ended; });
  }
  EXPECT_TRUE(answered);
  const Status status = start.get();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_THAT(status.text(), HasSubstr("the device does not answer"));
}

// Every single call of the start fails once: an error that names a field, never a crash, and the
// next attempt succeeds.
TEST_F(DiskStartTest, EveryCallOfTheStartMayFail) {
  ASSERT_TRUE(open().ok());
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(loop_->put(i).ok());
  close();
  std::int64_t failed = 0;
  for (std::int64_t call = 0;; ++call) {
    env_.faults.calls = 0;
    env_.faults.fail_call = call;
    const Status status = open();
    const bool reached = env_.faults.calls > call;
    if (!status.ok()) {
      ++failed;
      EXPECT_THAT(status.text(), testing::StartsWith("disk.")) << "call " << call;
    } else {
      for (std::uint64_t i = 0; i < 8; ++i) {
        EXPECT_NE(loop_->get(i).text(), "WRONG BYTES") << "call " << call;
      }
      close();
    }
    if (!reached) break;
    ASSERT_LT(call, 1000);
    env_.faults.fail_call = -1;
    ASSERT_TRUE(open().ok()) << "after call " << call;
    for (std::uint64_t i = 0; i < 8; ++i) (void)loop_->put(i);
    close();
  }
  EXPECT_GE(failed, 4);
}

}  // namespace
}  // namespace larder::disk::testing_support
