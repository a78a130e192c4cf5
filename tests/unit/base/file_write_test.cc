// A write cut short by a limit is carried on, so that the next call names the limit.
#include "sidecar/base/file_write.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <vector>

#include "shim/base/fd.h"
#include "tests/file_size_limit.h"

namespace larder::base {
namespace {

using test::FileSizeLimit;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kBytes = 100'000, kLimit = 65'536;

class FileWriteTest : public testing::Test {
 protected:
  std::uint64_t size() const {
    struct stat info {};
    EXPECT_EQ(::fstat(file_.get(), &info), 0);
    return static_cast<std::uint64_t>(info.st_size);
  }
  static void expect_limit_named(const Status& status) {
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_THAT(status.text(), AllOf(HasSubstr("write x: "), HasSubstr("no file over 64 KiB"),
                                     HasSubstr("ulimit -f unlimited")));
  }

  Fd file_{::memfd_create("larder-test", MFD_CLOEXEC)};
  const std::vector<std::byte> bytes_ = std::vector<std::byte>(kBytes, std::byte{7});
};

// covers F-108
TEST_F(FileWriteTest, AllBytesAreWritten) {
  EXPECT_TRUE(write_all(file_.get(), bytes_, "write x").ok());
  EXPECT_EQ(size(), kBytes);
  EXPECT_TRUE(write_all_at(file_.get(), bytes_, 50'000, "write x").ok());
  EXPECT_EQ(size(), 150'000U);
  EXPECT_TRUE(write_all(file_.get(), {}, "write x").ok());
}

// The first call writes a part and is no failure: its errno is from an earlier call.
// covers F-108
TEST_F(FileWriteTest, AShortWriteOfALimitNamesTheLimit) {
  const FileSizeLimit limit(kLimit);
  errno = ENOSPC;
  expect_limit_named(write_all(file_.get(), bytes_, "write x"));
  EXPECT_EQ(size(), kLimit);
  errno = ENOSPC;
  expect_limit_named(write_all_at(file_.get(), bytes_, 1000, "write x"));
  expect_limit_named(write_all_at(file_.get(), bytes_, kLimit, "write x"));
}

// covers F-108
TEST_F(FileWriteTest, FullDeviceIsNotReportedAsLimit) {
  const FileSizeLimit limit(kLimit);
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Status status = write_all(full.get(), bytes_, "write x");
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.text(), "write x: No space left on device");
}

}  // namespace
}  // namespace larder::base
