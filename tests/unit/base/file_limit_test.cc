#include "sidecar/base/file_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/file_size_limit.h"

namespace larder::base {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// covers F-108
TEST(FileLimitTest, AFileOverTheLimitNamesFileLimitAndRemedy) {
  const test::FileSizeLimit limit(1'024'000);
  const Status status = file_failure(EFBIG, "ftruncate /dev/shm/x.arena to 64 MiB");
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(status.text(), AllOf(HasSubstr("/dev/shm/x.arena"), HasSubstr("1000 KiB"),
                                   HasSubstr("ulimit -f unlimited")));
}

// covers F-108
TEST(FileLimitTest, OtherFailuresAreUnchanged) {
  EXPECT_EQ(file_failure(ENOSPC, "fallocate").to_string(),
            Status::from_errno(ENOSPC, "fallocate").to_string());
}

}  // namespace
}  // namespace larder::base
