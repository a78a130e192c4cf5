#include "sidecar/ctl/volume_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace larder::ctl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Another user if we may give to one, else our own: then no folder is given away, and all other
// rules hold.
class VolumeFoldersTest : public testing::Test {
 protected:
  VolumeFoldersTest()
      : folder_(testing::TempDir() + "larder_folders." + std::to_string(::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(mine() + "/deep");
    for (const std::string& file : {mine() + "/deep/arena", theirs()}) std::ofstream(file) << "x";
    fs::create_symlink(theirs(), mine() + "/link");
    fs::permissions(mine() + "/deep", fs::perms::owner_all);
  }
  ~VolumeFoldersTest() override { fs::remove_all(folder_); }

  std::string mine() const { return folder_ + "/mine"; }
  std::string theirs() const { return folder_ + "/theirs"; }
  static bool owned(const std::string& path, uid_t user, gid_t group) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 && found.st_uid == user && found.st_gid == group;
  }
  Status own() { return init_volumes(user_, group_, std::vector{mine()}); }

  const std::string folder_;
  const uid_t user_ = ::geteuid() == 0 ? 2'000'000'001 : ::geteuid();
  const gid_t group_ = ::geteuid() == 0 ? 2'000'000'002 : ::getegid();
};

TEST_F(VolumeFoldersTest, ChangesOwnerOfAllFilesWithoutFollowingLinks) {
  const Status done = own();
  ASSERT_TRUE(done.ok()) << done.text();
  for (const char* path : {"", "/deep", "/deep/arena", "/link"})
    EXPECT_TRUE(owned(mine() + path, user_, group_)) << path;
  EXPECT_TRUE(owned(theirs(), ::geteuid(), ::getegid()));
  struct stat deep {};
  ASSERT_EQ(::lstat((mine() + "/deep").c_str(), &deep), 0);
  EXPECT_EQ(deep.st_mode & 0777, 0700U);
}

// Larderd's files may be many, and larderd starts often.
TEST_F(VolumeFoldersTest, OwnedFolderIsNotScanned) {
  ASSERT_EQ(::lchown(mine().c_str(), user_, group_), 0);
  ASSERT_TRUE(own().ok());
  EXPECT_TRUE(owned(mine() + "/deep/arena", ::geteuid(), ::getegid()));
}

// covers F-217
TEST_F(VolumeFoldersTest, MissingOrWrongFolderIsReported) {
  EXPECT_THAT(init_volumes(user_, group_, std::vector{folder_ + "/none"}).text(),
              HasSubstr(folder_ + "/none: No such file"));
  EXPECT_THAT(init_volumes(user_, group_, std::vector{theirs()}).text(),
              HasSubstr(theirs() + ": Not a directory"));
  EXPECT_THAT(init_volumes(user_, group_, std::vector{mine() + "/link"}).text(),
              HasSubstr("Not a directory"));
}

TEST_F(VolumeFoldersTest, OwnerMustBeTwoNumbers) {
  for (const char* owner : {"", "7", "7:", ":7", "x:7", "7:x", "-1:7", "7:4294967295"}) {
    Arguments arguments;
    arguments.words = {"init-volumes", owner, mine()};
    EXPECT_THAT(init_volumes_command(arguments).status().text(),
                HasSubstr("is no owner: write UID:GID"))
        << owner;
  }
  Arguments arguments;
  arguments.words = {"init-volumes", std::to_string(user_) + ":" + std::to_string(group_), mine()};
  ASSERT_TRUE(init_volumes_command(arguments).ok());
  EXPECT_TRUE(owned(mine(), user_, group_));
}

}  // namespace
}  // namespace larder::ctl
