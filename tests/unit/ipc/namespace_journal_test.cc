// The file in which a life of larderd leaves its namespaces to the next one.
#include "sidecar/ipc/namespace_journal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>

namespace larder::ipc {
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

TEST_F(NamespaceJournalTest, EveryLayoutOfANamespaceIsWrittenDownOnce) {
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

TEST_F(NamespaceJournalTest, ForgetsWhatIsGivenBack) {
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
  for (const NamespaceJournal::Record& record : NamespaceJournal::read(path)) read[*record.handle] = *record.spec.fingerprint;
  for (const std::uint32_t handle : {3U, 1998U, 1999U}) EXPECT_EQ(read[handle], "number: " + std::to_string(handle) + padding);
  EXPECT_FALSE(fs::exists(directory_ / "larder.fresh.7"));
}

}  // namespace
}  // namespace larder::ipc
