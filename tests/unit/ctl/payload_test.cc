#include "sidecar/ctl/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace larder::ctl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class PayloadTest : public testing::Test {
 protected:
  PayloadTest() : folder_(testing::TempDir() + "larder_payload." + std::to_string(::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(from() + "/python/larder/vllm");
    fs::create_directories(to());
    write(from() + "/python/larder/__init__.py", "new");
    write(from() + "/python/larder/vllm/connector.py", "connector");
  }
  ~PayloadTest() override { fs::remove_all(folder_); }

  std::string from() const { return folder_ + "/from"; }
  std::string to() const { return folder_ + "/to"; }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static mode_t mode(const std::string& path) {
    struct stat found {};
    return ::stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
  }
  // The files in the target whose names begin with a dot: empty after the end.
  std::vector<std::string> left_over() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(to()))
      if (entry.path().filename().string().starts_with("."))
        names.push_back(entry.path().filename());
    return names;
  }

  const std::string folder_;
};

TEST_F(PayloadTest, CopiesAllFilesReadableRegardlessOfUmask) {
  fs::permissions(from() + "/python/larder/__init__.py", fs::perms::owner_read);
  const mode_t before = ::umask(0077);
  const Status done = install_payload(from(), to());
  ::umask(before);
  ASSERT_TRUE(done.ok()) << done.text();
  EXPECT_EQ(read(to() + "/python/larder/vllm/connector.py"), "connector");
  EXPECT_EQ(mode(to() + "/python/larder/__init__.py"), 0644U);
  EXPECT_EQ(mode(to() + "/python/larder"), 0755U);
  EXPECT_THAT(left_over(), IsEmpty());
}

TEST_F(PayloadTest, ReplacesAnEarlierPayloadCompletely) {
  fs::create_directories(to() + "/python/larder");
  write(to() + "/python/larder/__init__.py", "old");
  write(to() + "/python/larder/gone.py", "a module that the new payload has not");
  write(to() + "/beside", "not ours");
  ASSERT_TRUE(install_payload(from(), to()).ok());
  EXPECT_EQ(read(to() + "/python/larder/__init__.py"), "new");
  EXPECT_FALSE(fs::exists(to() + "/python/larder/gone.py"));
  EXPECT_EQ(read(to() + "/beside"), "not ours");
  EXPECT_THAT(left_over(), IsEmpty());
}

TEST_F(PayloadTest, LeftoversOfAKilledInstallAreRemoved) {
  fs::create_directories(to() + "/.larder-payload." + std::to_string(::getpid()) + "/python");
  ASSERT_TRUE(install_payload(from(), to()).ok());
  EXPECT_EQ(read(to() + "/python/larder/__init__.py"), "new");
  EXPECT_THAT(left_over(), IsEmpty());
}

TEST_F(PayloadTest, FailedInstallKeepsTheEarlierPayload) {
  fs::create_directories(to() + "/python");
  write(to() + "/python/old", "old");
  fs::create_symlink("/etc/passwd", from() + "/python/larder/link");
  EXPECT_THAT(install_payload(from(), to()).text(),
              HasSubstr("link is neither a file nor a folder"));
  EXPECT_EQ(read(to() + "/python/old"), "old");
  EXPECT_FALSE(fs::exists(to() + "/python/larder"));
  EXPECT_THAT(left_over(), IsEmpty());
}

TEST_F(PayloadTest, MissingFoldersAreReported) {
  EXPECT_THAT(install_payload(folder_ + "/none", to()).text(),
              HasSubstr(folder_ + "/none: No such file"));
  EXPECT_THAT(install_payload(from(), folder_ + "/none").text(),
              HasSubstr(folder_ + "/none: No such file"));
  EXPECT_THAT(install_payload(from(), from() + "/python/larder/__init__.py").text(),
              HasSubstr("Not a directory"));
  fs::create_directories(folder_ + "/empty");
  EXPECT_THAT(install_payload(folder_ + "/empty", to()).text(), HasSubstr("payload is empty"));
}

}  // namespace
}  // namespace larder::ctl
