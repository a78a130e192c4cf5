// hash_file(): the digest is that of the whole content. A file that cannot be read whole, or within
// the limit, is refused by name.
#include "shim/client/file_hash.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "shim/client/stream_hash.h"

namespace larder::client {
namespace {

constexpr std::size_t kMiB = 1 << 20;

// Not the same byte everywhere, and different in every MiB.
std::string content(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>((i * 131 + i / kMiB * 7) >> 3);
  return text;
}

std::string hex(const std::array<std::uint8_t, 16>& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", byte);
    text += two;
  }
  return text;
}

class FileHashTest : public testing::Test {
 protected:
  // Not in /dev/shm or a tmpfs /tmp: the page cache of a real file can be emptied.
  FileHashTest() : folder_("file_hash_test." + std::to_string(::getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~FileHashTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // False if this file system keeps its pages.
  static bool drop_from_page_cache(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    ::fsync(fd);
    const bool dropped = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    ::close(fd);
    const Result<FileDigest> told = hash_file(path.c_str(), {0, true});
    return dropped && told.status().code() == Code::kOutOfRange;
  }

  const std::string folder_;
};

TEST_F(FileHashTest, DigestEqualsXxh128sum) {
  // printf abc | xxh128sum; an empty file.
  EXPECT_EQ(hex(hash_file(write("abc", "abc").c_str(), {})->digest),
            "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(hex(hash_file(write("empty", "").c_str(), {})->digest),
            "99aa06d3014798d86001c324468d497f");
}

TEST(StreamHashTest, DigestIsIndependentOfInstructionSetAndPieceSizes) {
  const std::string text = content(kMiB + 77);
  StreamHash portable(update_portable);
  portable.update(text.data(), text.size());
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{4096}, text.size()}) {
    StreamHash best;
    for (std::size_t at = 0; at < text.size(); at += piece)
      best.update(&text[at], std::min(piece, text.size() - at));
    EXPECT_EQ(best.digest(), portable.digest()) << piece;
  }
}

// covers F-070
TEST_F(FileHashTest, EveryByteChangesTheDigest) {
  std::string text = content(3 * kMiB + 17);
  const std::string path = write("weights", text);
  const Result<FileDigest> first = hash_file(path.c_str(), {});
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  StreamHash whole;
  whole.update(text.data(), text.size());
  EXPECT_EQ(first->digest, whole.digest());
  EXPECT_EQ(first->stamp.size_bytes, text.size());
  for (const std::size_t at : {std::size_t{0}, kMiB - 1, kMiB, 2 * kMiB + 12345, text.size() - 1}) {
    text[at] = static_cast<char>(text[at] ^ 1);
    EXPECT_NE(hash_file(write("weights", text).c_str(), {})->digest, first->digest)
        << "byte " << at;
    text[at] = static_cast<char>(text[at] ^ 1);
  }
  EXPECT_EQ(hash_file(write("weights", text).c_str(), {})->digest, first->digest);
}

TEST_F(FileHashTest, StampEqualsStat) {
  const std::string path = write("stamped", "abc");
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  const Result<FileDigest> file = hash_file(path.c_str(), {});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->stamp.device, found.st_dev);
  EXPECT_EQ(file->stamp.inode, found.st_ino);
  EXPECT_EQ(file->stamp.size_bytes, 3U);
  EXPECT_EQ(file->stamp.mtime_ns, found.st_mtim.tv_sec * 1'000'000'000L + found.st_mtim.tv_nsec);
  EXPECT_EQ(file->stamp.ctime_ns, found.st_ctim.tv_sec * 1'000'000'000L + found.st_ctim.tv_nsec);
}

TEST_F(FileHashTest, NonRegularFileIsRefusedWithoutWaiting) {
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(hash_file(fifo.c_str(), {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(hash_file(folder_.c_str(), {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(hash_file((folder_ + "/absent").c_str(), {}).status().code(), Code::kNotFound);
  EXPECT_EQ(hash_file((write("file", "x") + "/below").c_str(), {}).status().code(),
            Code::kNotFound);
}

TEST_F(FileHashTest, StopRequestEndsTheCall) {
  const std::string path = write("weights", content(4 * kMiB));
  std::int32_t stop = 1;
  EXPECT_EQ(hash_file(path.c_str(), {}, &stop).status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(hash_file(path.c_str(), {0, true}, &stop).status().code(), Code::kDeadlineExceeded);
  stop = 0;
  EXPECT_TRUE(hash_file(path.c_str(), {}, &stop).ok());
}

// A writer that never rests: each call reports that the file changed, or hashed the file between
// two writes; then the stamp is still that of the file, and the digest that of its bytes.
// covers F-071
TEST_F(FileHashTest, FileChangedDuringHashingIsReported) {
  const std::string path = write("weights", content(16 * kMiB));
  std::atomic<bool> done = false;
  std::thread writer([&] {
    const int fd = ::open(path.c_str(), O_WRONLY);
    for (unsigned char round = 0; !done; ++round) {
      EXPECT_EQ(::pwrite(fd, &round, 1, 5), 1);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    ::close(fd);
  });
  int changed = 0;
  for (int i = 0; i < 50 && changed == 0; ++i)
    changed += hash_file(path.c_str(), {}).status().code() == Code::kUnavailable ? 1 : 0;
  done = true;
  writer.join();
  EXPECT_GT(changed, 0);
  EXPECT_TRUE(hash_file(path.c_str(), {}).ok());
}

// covers F-072
TEST_F(FileHashTest, UncachedBytesCountAgainstTheLimitBeforeReading) {
  const std::string path = write("weights", content(8 * kMiB));
  if (!drop_from_page_cache(path)) GTEST_SKIP() << "this file system keeps its pages";
  const Result<FileDigest> over = hash_file(path.c_str(), {kMiB, true});
  EXPECT_EQ(over.status().code(), Code::kOutOfRange) << over.status().to_string();
  EXPECT_NE(over.status().text().find("8388608 bytes of " + path), std::string::npos)
      << over.status().text();
  EXPECT_EQ(hash_file(path.c_str(), {kMiB, true}).status().code(), Code::kOutOfRange)
      << "the first call read no byte";
  const Result<FileDigest> within = hash_file(path.c_str(), {8 * kMiB, true});
  ASSERT_TRUE(within.ok()) << within.status().to_string();
  EXPECT_EQ(within->uncached_bytes, 8 * kMiB);
  const Result<FileDigest> cached = hash_file(path.c_str(), {0, true});
  ASSERT_TRUE(cached.ok()) << "now it is in the page cache: " << cached.status().to_string();
  EXPECT_EQ(cached->uncached_bytes, 0U);
  EXPECT_EQ(cached->digest, within->digest);
}

// mincore() tells every other process that all pages are in memory, even if no page is.
TEST_F(FileHashTest, LimitCountsEveryByteOfForeignFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "root can be another user";
  const std::string path = write("weights", content(2 * kMiB));
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  ASSERT_EQ(hash_file(path.c_str(), {0, true})->uncached_bytes, 0U)
      << "root is told that all is cached";
  ASSERT_EQ(::seteuid(65534), 0);
  const Result<FileDigest> other = hash_file(path.c_str(), {0, true});
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(other.status().code(), Code::kOutOfRange) << other.status().to_string();
  EXPECT_NE(other.status().text().find("2097152 bytes"), std::string::npos)
      << other.status().text();
}

TEST_F(FileHashTest, UnknownFileSystemIsNotLocal) {
  const Result<FileDigest> file = hash_file("/proc/version", {});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_FALSE(file->local);
}

TEST_F(FileHashTest, ALocalFileHasNoLimit) {
  const std::string path = write("weights", content(2 * kMiB));
  const Result<FileDigest> file = hash_file(path.c_str(), {});
  ASSERT_TRUE(file.ok());
  if (!file->local)
    GTEST_SKIP() << "the build does not lie on a file system that is known to be local";
  drop_from_page_cache(path);
  const Result<FileDigest> again = hash_file(path.c_str(), {0, false});
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->uncached_bytes, 0U) << "not even counted";
}

}  // namespace
}  // namespace larder::client
