// The file in which one larderd leaves its namespaces to the next.
#include "sidecar/memory/namespace_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>

#include "sidecar/base/log_throttle.h"
#include "sidecar/memory/lock_file.h"
#include "tests/file_size_limit.h"

namespace larder::memory {
namespace {

namespace fs = std::filesystem;

class NamespaceJournalTest : public testing::Test {
 protected:
  NamespaceJournalTest() {
    char name[] = "/dev/shm/larder-test-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~NamespaceJournalTest() override { fs::remove_all(directory_); }

  fs::path directory_;
};

// covers F-108
TEST_F(NamespaceJournalTest, EveryLayoutOfANamespaceIsRecordedOnce) {
  const std::string path = directory_ / "journal";
  const std::vector<std::byte> packet(20, std::byte{3});
  Result<NamespaceJournal> journal = NamespaceJournal::create(path);
  ASSERT_TRUE(journal.ok());
  EXPECT_TRUE(journal->add(packet, 5, 0).ok());
  EXPECT_TRUE(journal->add(packet, 5, 0).ok());
  EXPECT_EQ(fs::file_size(path), 36U);
  EXPECT_TRUE(journal->add(packet, 5, 1).ok());
  EXPECT_EQ(fs::file_size(path), 72U);
  EXPECT_TRUE(NamespaceJournal::read(path).empty()) << "that was no OPEN_NAMESPACE";
}

std::vector<std::byte> packet_of(const std::string& text) {
  protocol::OpenNamespace open{};
  open.id = protocol::namespace_id(text);
  open.group_count = open.shard_count = 1;
  open.text_bytes = static_cast<std::uint32_t>(text.size());
  protocol::Encoder encoder(protocol::MessageType::kOpenNamespace, 2);
  encoder.append(open).append(protocol::GroupLayout{4096, 2, 0}).append_text(text);
  return {encoder.packet().begin(), encoder.packet().end()};
}

// covers F-100, F-108
TEST_F(NamespaceJournalTest, ForgetsReleasedNamespaces) {
  const std::string path = directory_ / "larder.namespaces.7";
  Result<NamespaceJournal> journal = NamespaceJournal::create(path);
  ASSERT_TRUE(journal.ok());
  std::uint64_t most = 0;
  const std::string padding(8192, 'x');
  for (std::uint32_t i = 0; i < 2000; ++i) {
    journal->keep([i](std::uint32_t handle) { return handle == 3 || handle + 2 > i; });
    ASSERT_TRUE(journal->add(packet_of("number: " + std::to_string(i) + padding), i, 0).ok());
    most = std::max(most, fs::file_size(path));
  }
  EXPECT_LT(most, 512U << 10);
  EXPECT_EQ(fs::file_size(path), journal->bytes());
  std::map<std::uint32_t, std::string> read;
  for (const NamespaceJournal::Record& record : NamespaceJournal::read(path))
    read[*record.handle] = *record.spec.fingerprint;
  for (const std::uint32_t handle : {3U, 1998U, 1999U})
    EXPECT_EQ(read[handle], "number: " + std::to_string(handle) + padding);
  EXPECT_FALSE(fs::exists(directory_ / "larder.fresh.7"));
}

// covers F-286
TEST_F(NamespaceJournalTest, KeepsTheChunkParts) {
  const std::string path = directory_ / "journal", text = "a: 1\n";
  Result<NamespaceJournal> journal = NamespaceJournal::create(path);
  ASSERT_TRUE(journal.ok());
  std::uint32_t handle = 0;
  for (const std::uint32_t words : {0U, 2U, protocol::kMaxPartWords}) {
    std::vector<std::byte> packet = packet_of(text);
    protocol::Encoder encoder(protocol::MessageType::kOpenNamespace, 2);
    encoder.append_text(
        {reinterpret_cast<const char*>(packet.data()) + sizeof(protocol::MessageHeader),
         packet.size() - sizeof(protocol::MessageHeader)});
    encoder.append(protocol::NamespaceShards{1, words})
        .append_all(std::span<const std::uint64_t>(std::vector<std::uint64_t>(words, 7)));
    ASSERT_TRUE(journal->add(encoder.packet(), handle++, 1).ok());
  }
  const std::vector<NamespaceJournal::Record> records = NamespaceJournal::read(path);
  ASSERT_EQ(records.size(), 3U);
  EXPECT_TRUE(records[0].spec.parts.empty());
  EXPECT_EQ(records[1].spec.parts, (std::vector<std::uint64_t>{7, 7}));
  EXPECT_EQ(records[2].spec.parts.size(), protocol::kMaxPartWords);
}

// The name of the file and the limit; the error once said that no space was left.
// covers F-108
TEST_F(NamespaceJournalTest, FileSizeLimitIsReportedAndKeepsTheFileIntact) {
  const std::string path = directory_ / "larder.namespaces.7";
  Result<NamespaceJournal> journal = NamespaceJournal::create(path);
  ASSERT_TRUE(journal.ok());
  const std::string padding(8192, 'x');
  ASSERT_TRUE(journal->add(packet_of("number: 1" + padding), 1, 0).ok());
  {
    const test::FileSizeLimit limit(12'288);
    const Status status = journal->add(packet_of("number: 2" + padding), 2, 0);
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_THAT(status.text(), testing::AllOf(testing::HasSubstr(path),
                                              testing::HasSubstr("ulimit -f unlimited")));
  }
  EXPECT_TRUE(journal->add(packet_of("number: 3" + padding), 3, 0).ok());
  const std::vector<NamespaceJournal::Record> read = NamespaceJournal::read(path);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(*read[1].spec.fingerprint, "number: 3" + padding);
}

// The journal is written anew under a limit below its size: the old file stays, and one line names
// the limit.
// covers F-108
TEST_F(NamespaceJournalTest, FileSizeLimitPreventsRewriting) {
  const std::string path = directory_ / "larder.namespaces.7";
  Result<NamespaceJournal> journal = NamespaceJournal::create(path);
  ASSERT_TRUE(journal.ok());
  const std::string padding(8192, 'x');
  for (std::uint32_t i = 0; i < 60; ++i)
    ASSERT_TRUE(journal->add(packet_of("number: " + std::to_string(i) + padding), i, 0).ok());
  const std::uint64_t before = journal->bytes();
  base::tell_all_left_out();
  testing::internal::CaptureStderr();
  {
    const test::FileSizeLimit limit(12'288);
    journal->keep([](std::uint32_t handle) { return handle < 3; });
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("ulimit -f unlimited"));
  EXPECT_EQ(fs::file_size(path), before);
  journal->keep([](std::uint32_t handle) { return handle < 3; });
  EXPECT_LT(fs::file_size(path), 32'768U) << "once the limit is gone";
}

// Of the lock file of a session, which holds 32 bytes.
// covers F-108
TEST_F(NamespaceJournalTest, FileSizeLimitIsReportedForLockFiles) {
  Result<LockFile> lock = LockFile::create(directory_ / "larder.lock.1");
  ASSERT_TRUE(lock.ok());
  const test::FileSizeLimit limit(20);
  for (const Status& status : {lock->write({1, 2, 3, 4}), lock->note_sidecar_writes()})
    EXPECT_THAT(status.text(), testing::AllOf(testing::HasSubstr("larder.lock.1"),
                                              testing::HasSubstr("ulimit -f unlimited")));
}

}  // namespace
}  // namespace larder::memory
