// A log that is not read, or not taken: a writer of a line never waits, and missing lines are
// counted and reported.
#include "sidecar/base/log_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/eventually.h"

namespace larder::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

constexpr seconds kPatience{30};

std::string missing_line(std::uint64_t lines) {
  return "missing " + std::to_string(lines) + "\n";
}

// A pipe whose ends stay open: a queue's thread may be stuck in a write.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  int input() const { return ends_[1]; }
  void fill() const {
    ::fcntl(input(), F_SETFL, O_NONBLOCK);
    const std::string junk(4096, '.');
    while (::write(input(), junk.data(), junk.size()) > 0) {
    }
    ::fcntl(input(), F_SETFL, 0);
  }
  // Takes the present bytes.
  void read() {
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::array<char, 65536> buffer{};
    for (ssize_t got = 0; (got = ::read(ends_[0], buffer.data(), buffer.size())) > 0;)
      text_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  // Reads until `queue` is empty.
  void read_all(LogQueue& queue) {
    EXPECT_TRUE(test::eventually(
        [&] {
          read();
          return queue.flush(milliseconds(1));
        },
        30'000));
    read();
  }
  std::vector<std::string> lines() const {
    std::istringstream text(text_.substr(std::min(text_.find_first_not_of('.'), text_.size())));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

 private:
  std::array<int, 2> ends_{};
  std::string text_;
};

// covers F-107
TEST(LogQueueTest, LinesKeepTheirOrder) {
  Pipe pipe;
  LogQueue queue(pipe.input(), missing_line);
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    expected.push_back("line " + std::to_string(i));
    queue.add(expected.back() + "\n");
  }
  ASSERT_TRUE(queue.flush(kPatience));
  pipe.read();
  EXPECT_EQ(pipe.lines(), expected);
  EXPECT_EQ(queue.dropped(), 0U);
}

// covers F-107
TEST(LogQueueTest, FullPipeBlocksNoCallerAndMarksTheGap) {
  Pipe pipe;
  pipe.fill();
  LogQueue queue(pipe.input(), missing_line, 4096);
  constexpr std::uint64_t kLines = 10'000;
  // returns, or the test hangs
  for (std::uint64_t i = 0; i < kLines; ++i) queue.add("line " + std::to_string(i) + "\n");
  EXPECT_FALSE(queue.flush(milliseconds(50)));
  const std::uint64_t dropped = queue.dropped();
  EXPECT_GT(dropped, kLines / 2);
  pipe.read_all(queue);
  queue.add("back\n");
  ASSERT_TRUE(queue.flush(kPatience));
  pipe.read();
  const std::vector<std::string> lines = pipe.lines();
  // One gap, or two: if the thread took its first line only after the queue was full, another line
  // found room behind the first gap.
  std::uint64_t next = 0, told = 0;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    if (lines[i].starts_with("missing ")) {
      const std::uint64_t gap = std::stoull(lines[i].substr(lines[i].find(' ')));
      told += gap;
      next += gap;
    } else {
      EXPECT_EQ(lines[i], "line " + std::to_string(next++));
    }
  }
  EXPECT_EQ(next, kLines);
  EXPECT_EQ(told, dropped);
  EXPECT_EQ(lines.back(), "back");
}

// covers F-107
TEST(LogQueueTest, ManyThreadsLoseNoLineWithoutACount) {
  Pipe pipe;
  pipe.fill();
  LogQueue queue(pipe.input(), missing_line, 64 * 1024);
  constexpr std::uint64_t kThreads = 4, kEach = 2000;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        for (std::uint64_t line = 0; line < kEach; ++line) queue.add("x\n");
      });
    pipe.read();
  }
  pipe.read_all(queue);
  std::uint64_t told = 0, written = 0;
  for (const std::string& line : pipe.lines()) {
    if (line == "x")
      ++written;
    else
      told += std::stoull(line.substr(line.find(' ')));
  }
  EXPECT_EQ(told, queue.dropped());
  EXPECT_EQ(written + told, kThreads * kEach);
}

// covers F-107
TEST(LogQueueTest, FullDiskDropsAreCountedAndReportedOnceWritable) {
  Pipe pipe;
  const int fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  LogQueue queue(fd, missing_line);
  for (int i = 0; i < 3; ++i) queue.add("lost\n");
  ASSERT_TRUE(queue.flush(kPatience));
  EXPECT_EQ(queue.dropped(), 3U);
  ASSERT_EQ(::dup3(pipe.input(), fd, O_CLOEXEC), fd);
  queue.add("there\n");
  ASSERT_TRUE(queue.flush(kPatience));
  pipe.read();
  EXPECT_THAT(pipe.lines(), ElementsAre("missing 3", "there"));
}

// covers F-107
TEST(LogQueueTest, ClosedReaderIsAnErrorWithoutSignal) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ::close(ends[0]);
  LogQueue queue(ends[1], missing_line);
  queue.add("lost\n");
  EXPECT_TRUE(queue.flush(kPatience));
  EXPECT_EQ(queue.dropped(), 1U);
}

// Another process may have set this for all processes that have the file open.
// covers F-107
TEST(LogQueueTest, NonBlockingDescriptorLosesNoLine) {
  Pipe pipe;
  pipe.fill();
  ::fcntl(pipe.input(), F_SETFL, O_NONBLOCK);
  LogQueue queue(pipe.input(), missing_line);
  const std::string long_line(100'000, 'x');  // more than the pipe holds
  queue.add(long_line + "\n");
  EXPECT_FALSE(queue.flush(milliseconds(50)));
  pipe.read_all(queue);
  EXPECT_THAT(pipe.lines(), ElementsAre(long_line));
  EXPECT_EQ(queue.dropped(), 0U);
}

}  // namespace
}  // namespace larder::base
