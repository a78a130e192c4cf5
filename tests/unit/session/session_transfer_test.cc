// EXPORT, COPY and WITHDRAW through a session's state machine: an engine cannot give back a slot
// that larderd still writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "shim/client/copy_flags.h"
#include "shim/protocol/transfer_messages.h"
#include "sidecar/session/session_protocol.h"
#include "tests/eventually.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/unit/transfer/host_importer.h"

namespace larder::session {
namespace {

using protocol::Encoder;
using protocol::MessageType;
using store::testing_support::StoreBox;
using test::eventually;
using transfer::testing_support::HostDevice;
using transfer::testing_support::HostImporter;
using transfer::testing_support::memory_file;

constexpr std::uint64_t kPieceBytes = 4096;

class SessionTransferTest : public testing::Test {
 protected:
  SessionTransferTest()
      : box_(8), region_(store::testing_support::zeroed_pages(sizeof(protocol::SessionRegion))) {
    SessionFacts facts;
    facts.number = 1;
    facts.arena_bytes = 8 * StoreBox::kSlotBytes;
    const SessionServices services{
        .store = box_.store(), .stats = box_.stats(), .clock = clock_, .transfers = &transfers_};
    session_.emplace(facts, *reinterpret_cast<protocol::SessionRegion*>(region_.get()), services,
                     [] { return true; });
    protocol::Hello hello{};
    hello.version_major = 1;
    EXPECT_TRUE(send(Encoder(MessageType::kHello, 1).append(hello)).ok());
    EXPECT_TRUE(send(Encoder(MessageType::kAttached, 0).append(protocol::Attached{})).ok());
  }
  ~SessionTransferTest() override {
    device_->gate.open();
    transfers_.end_session(1);
    EXPECT_TRUE(eventually([this] { return !transfers_.busy(1); }, 10'000));
    box_.store().sessions().end(1);
    box_.store().sessions().release_quarantine(1);
  }

  Result<Reply> send(Encoder& message, std::vector<Fd> fds = {}) {
    return session_->handle(message.packet(), std::move(fds));
  }
  Result<Reply> send_export(std::uint32_t kind, int files, std::uint64_t bytes = 4 * kPieceBytes) {
    std::vector<Fd> fds;
    for (int i = 0; i < files; ++i) fds.push_back(memory_file(4 * kPieceBytes));
    const protocol::ExportedRange range{kind, 0, bytes, {}};
    return send(
        Encoder(MessageType::kExport, 9).append(protocol::Export{1, 0, 0, 0, {}}).append(range),
        std::move(fds));
  }
  protocol::SlotRef granted(std::uint64_t number = 1) {
    const std::string text = "a: 1\n";
    protocol::OpenNamespace open{};
    open.id = protocol::namespace_id(text);
    open.group_count = open.shard_count = 1;
    open.text_bytes = static_cast<std::uint32_t>(text.size());
    EXPECT_TRUE(send(Encoder(MessageType::kOpenNamespace, 2)
                         .append(open)
                         .append(protocol::GroupLayout{kPieceBytes, 1, 0})
                         .append_text(text))
                    .ok());
    const Result<Reply> reply =
        send(Encoder(MessageType::kReserve, 3)
                 .append(protocol::Reserve{session_->namespaces().back(), 0, 0, 1, 0})
                 .append(protocol::BlockHash{number, 1}));
    protocol::Granted head{};
    protocol::Grant grant{};
    Result<protocol::Decoder> decoder = protocol::Decoder::open(reply->packet);
    EXPECT_TRUE(decoder->read(head) && decoder->read(grant) && grant.status == 0);
    return {grant.slot, 0, grant.generation};
  }
  void open() {
    ASSERT_TRUE(send_export(2, 1).ok());
    ASSERT_TRUE(eventually([this] { return !transfers_.take_answers().empty(); }, 10'000));
    flags_ = *client::CopyFlags::open(Fd(::dup(transfers_.region_fd(1))),
                                      transfer::TransferMemory::size_bytes());
  }
  Result<Reply> send_copy(std::uint32_t flag, const protocol::SlotRef& slot,
                          std::uint64_t piece = 0) {
    return send(Encoder(MessageType::kCopy, 0)
                    .append(protocol::Copy{static_cast<std::uint32_t>(protocol::CopyVerb::kStore),
                                           flag, slot.slot, 1, slot.generation})
                    .append(piece));
  }
  Result<Reply> commit(const protocol::SlotRef& slot, std::uint64_t root) {
    return send(Encoder(MessageType::kCommit, 0)
                    .append(protocol::SlotList{1, 0})
                    .append(protocol::CommitRecord{slot.slot, 0, slot.generation, root}));
  }
  Result<Reply> disown(const protocol::SlotRef& slot) {
    return send(Encoder(MessageType::kDisown, 0).append(protocol::SlotList{1, 0}).append(slot));
  }
  // Both threads copy until the gate opens.
  void hold_threads() {
    device_->gated = true;
    for (const std::uint64_t number : {101, 102})
      ASSERT_TRUE(send_copy(*flags_->take(), granted(number)).ok());
    ASSERT_TRUE(device_->gate.await_entered(2));
  }
  // A copy of pages of zeros that waits in larderd, and that its engine has taken back to write the
  // slot by itself.
  protocol::SlotRef taken_back(std::uint32_t& flag) {
    const protocol::SlotRef slot = granted();
    flag = *flags_->take();
    EXPECT_TRUE(send_copy(flag, slot).ok());
    EXPECT_EQ(flags_->wait(flag).status().code(), Code::kDeadlineExceeded);
    offset_bytes_ = box_.store().sessions().granted_chunk(1, slot)->offset_bytes;
    std::memset(box_.arena() + offset_bytes_, 0x5a, kPieceBytes);
    return slot;
  }
  bool as_its_engine_wrote_it() {
    const std::byte* const slot = box_.arena() + offset_bytes_;
    return std::all_of(slot, slot + kPieceBytes, [](std::byte b) { return b == std::byte{0x5a}; });
  }
  protocol::CopyFlag& flag_at(std::uint32_t flag) {
    if (mapping_.data() == nullptr)
      mapping_ = *Mapping::map_shared(Fd(::dup(transfers_.region_fd(1))),
                                      transfer::TransferMemory::size_bytes(),
                                      PROT_READ | PROT_WRITE, "transfer region");
    return reinterpret_cast<protocol::TransferRegion*>(mapping_.data())->flags[flag];
  }
  bool await_ended(std::uint32_t flag) {
    return eventually(
        [&] {
          return flag_at(flag).state == static_cast<std::uint32_t>(protocol::CopyState::kEnded);
        },
        10'000);
  }

  StoreBox box_;
  store::testing_support::Memory region_;
  base::ManualClock clock_;
  std::shared_ptr<HostDevice> device_ = std::make_shared<HostDevice>();
  transfer::Transfers transfers_{
      std::make_unique<HostImporter>(device_), {box_.arena(), 8 * StoreBox::kSlotBytes}, [] {}};
  std::optional<SessionProtocol> session_;
  std::unique_ptr<client::CopyFlags> flags_;
  Mapping mapping_;                 // of the flags, as in a hostile engine
  std::uint64_t offset_bytes_ = 0;  // of the slot that was taken back
};

TEST_F(SessionTransferTest, SlotIsCommittedOnlyAfterItsCopy) {
  open();
  const protocol::SlotRef slot = granted();
  device_->gated = true;
  const std::uint32_t flag = *flags_->take();
  ASSERT_TRUE(send_copy(flag, slot).ok());
  ASSERT_TRUE(device_->gate.await_entered(1));
  const Result<Reply> early = commit(slot, 5);
  EXPECT_EQ(early.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(early.status().text().find("still being copied"), std::string::npos);
  EXPECT_EQ(disown(slot).status().code(), Code::kFailedPrecondition);
  device_->gate.open();
  const Result<std::uint64_t> root = flags_->wait(flag);
  ASSERT_TRUE(root.ok());
  EXPECT_TRUE(commit(slot, *root).ok());
  EXPECT_EQ(box_.stats().chunks_committed, 1U);
}

// covers F-032
TEST_F(SessionTransferTest, SlotOfWithdrawnQueuedCopyIsCommittedByItsEngine) {
  open();
  hold_threads();
  std::uint32_t flag = 0;
  const protocol::SlotRef slot = taken_back(flag);
  const Result<Reply> committed = commit(slot, 5);
  EXPECT_TRUE(committed.ok()) << committed.status().to_string();
  EXPECT_EQ(box_.stats().chunks_committed, 1U);
  device_->gate.open();
  EXPECT_TRUE(await_ended(flag));
  EXPECT_TRUE(as_its_engine_wrote_it());
}

// By then the slot may be another engine's.
TEST_F(SessionTransferTest, WithdrawnCopyIsNotMadeRegardlessOfItsFlag) {
  open();
  hold_threads();
  std::uint32_t flag = 0;
  const protocol::SlotRef slot = taken_back(flag);
  const Result<Reply> disowned = disown(slot);
  EXPECT_TRUE(disowned.ok()) << disowned.status().to_string();
  flag_at(flag).state = static_cast<std::uint32_t>(protocol::CopyState::kAsked);
  device_->gate.open();
  EXPECT_TRUE(await_ended(flag));
  EXPECT_TRUE(as_its_engine_wrote_it());
}

TEST_F(SessionTransferTest, QueuedCopyIsNotWithdrawnByACommit) {
  open();
  hold_threads();
  const protocol::SlotRef slot = granted();
  ASSERT_TRUE(send_copy(*flags_->take(), slot).ok());
  EXPECT_EQ(commit(slot, 5).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(disown(slot).status().code(), Code::kFailedPrecondition);
}

TEST_F(SessionTransferTest, ForeignGrantIsNotWritten) {
  open();
  const protocol::SlotRef slot = granted();
  const std::uint32_t flag = *flags_->take();
  ASSERT_TRUE(send_copy(flag, {slot.slot, 0, slot.generation + 1}).ok())
      << "it may have moved on: no fault";
  EXPECT_EQ(flags_->wait(flag).status().code(), Code::kNotFound);
  EXPECT_EQ(transfers_.counts().stores, 0U);
  EXPECT_EQ(send_copy(0, slot, protocol::make_piece(3, 0)).status().code(), Code::kInvalidArgument);
}

TEST_F(SessionTransferTest, MalformedMessageEndsTheSessionWithAReason) {
  EXPECT_EQ(send_export(2, 0).status().text(), "EXPORT: a descriptor is missing");
  EXPECT_EQ(send_export(1, 1).status().text(),
            "EXPORT: a descriptor that belongs to no allocation");
  EXPECT_EQ(send_export(7, 0).status().text(), "EXPORT: memory of kind 7 is unknown");
  EXPECT_EQ(send_export(1, 0, 0).status().text(), "EXPORT: 0 bytes are no allocation");
  EXPECT_EQ(send_export(1, 0, std::uint64_t{1} << 48).status().code(), Code::kInvalidArgument);
  std::vector<Fd> fds;
  fds.push_back(memory_file(1));
  EXPECT_EQ(send(Encoder(MessageType::kWithdraw, 0).append(protocol::Withdraw{}), std::move(fds))
                .status()
                .text(),
            "engines may send descriptors only with EXPORT");
  EXPECT_EQ(send(Encoder(MessageType::kWithdraw, 0).append(protocol::Withdraw{})).status().text(),
            "WITHDRAW: nothing is exported");
}

TEST_F(SessionTransferTest, EngineReportsWhyItCopiesByItself) {
  ASSERT_TRUE(send(Encoder(MessageType::kExport, 0)
                       .append(protocol::Export{0, 6, 0, 4, {}})
                       .append_text("a\nMI"))
                  .ok());
  EXPECT_EQ(transfers_.way(1).refusal.reason, protocol::TransferReason::kMig);
  EXPECT_EQ(transfers_.way(1).refusal.text, "a\\x0aMI");
}

}  // namespace
}  // namespace larder::session
