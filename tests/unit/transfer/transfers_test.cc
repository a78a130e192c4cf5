// Transfers over memory of the host: the open memory, the slots being written, and the end of a
// session in the midst of a copy.
#include "sidecar/transfer/transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "shim/client/copy_flags.h"
#include "shim/protocol/checksum.h"
#include "tests/eventually.h"
#include "tests/unit/transfer/host_importer.h"

namespace larder::transfer {
namespace {

using client::CopyFlags;
using protocol::CopyVerb;
using protocol::TransferReason;
using test::eventually;
using testing_support::handle_of;
using testing_support::HostDevice;
using testing_support::HostImporter;
using testing_support::memory_file;

constexpr std::size_t kPageBytes = 8192, kPages = 8, kArenaBytes = 1 << 20;
constexpr std::uint32_t kEngine = 4000000000;  // a process number that is nobody's

class TransfersTest : public testing::Test {
 protected:
  TransfersTest() : file_(memory_file(kPageBytes * kPages)) {
    pages_ = *Mapping::map_shared(file_, kPageBytes * kPages, PROT_READ | PROT_WRITE, "pages");
    for (std::size_t i = 0; i < kPageBytes * kPages; ++i)
      pages_.data()[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  std::vector<copy::MemoryHandle> handles(std::uint64_t bytes = kPageBytes * kPages) {
    std::vector<copy::MemoryHandle> handles;
    handles.push_back(handle_of(Fd(::dup(file_.get())), bytes));
    return handles;
  }
  Answer answer() {
    const auto told = [&] {
      if (answers_.empty()) answers_ = transfers_.take_answers();
      return !answers_.empty();
    };
    EXPECT_TRUE(eventually(told, 10'000));
    if (answers_.empty()) return {};
    const Answer first = answers_.front();
    answers_.erase(answers_.begin());
    return first;
  }
  void open(std::uint32_t session) {
    ASSERT_TRUE(transfers_.open(session, 1, kEngine, {}, handles()).ok());
    const Answer got = answer();
    ASSERT_FALSE(got.refusal.refused()) << got.refusal.text;
    ASSERT_TRUE(got.with_region);
    Result<std::unique_ptr<CopyFlags>> flags =
        CopyFlags::open(Fd(::dup(transfers_.region_fd(session))), TransferMemory::size_bytes());
    ASSERT_TRUE(flags.ok());
    flags_ = std::move(*flags);
  }
  CopyOrder order(CopyVerb verb, std::uint32_t flag, std::uint64_t root = 0) const {
    CopyOrder made;
    made.verb = verb;
    made.flag = flag;
    made.generation = 77;
    made.offset_bytes = 4096;
    made.piece_bytes = kPageBytes;
    made.root = root;
    for (const std::uint64_t page : {3, 0, 5})
      made.pieces.push_back(protocol::make_piece(0, page * kPageBytes));
    return made;
  }

  Fd file_;
  Mapping pages_;
  std::vector<std::byte> arena_ = std::vector<std::byte>(kArenaBytes + 4096);
  std::byte* const start_ =
      arena_.data() + (4096 - reinterpret_cast<std::uintptr_t>(arena_.data()) % 4096);
  std::shared_ptr<HostDevice> device_ = std::make_shared<HostDevice>();
  Transfers transfers_{std::make_unique<HostImporter>(device_), {start_, kArenaBytes}, [] {}};
  std::unique_ptr<CopyFlags> flags_;
  std::vector<Answer> answers_;  // not told yet
};

TEST_F(TransfersTest, StoresAndLoadsEngineMemory) {
  open(1);
  const std::uint32_t flag = *flags_->take();
  ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, flag)).ok());
  const Result<std::uint64_t> root = flags_->wait(flag);
  ASSERT_TRUE(root.ok()) << root.status().to_string();
  EXPECT_EQ(std::memcmp(start_ + 4096, pages_.data() + 3 * kPageBytes, kPageBytes), 0);
  std::vector<std::byte> before(pages_.data(), pages_.data() + kPageBytes * kPages);
  std::memset(pages_.data(), 0, kPageBytes * kPages);
  const std::uint32_t next = *flags_->take();
  ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kLoad, next, *root)).ok());
  EXPECT_TRUE(flags_->wait(next).ok());
  for (const std::size_t page : {3, 0, 5})
    EXPECT_EQ(std::memcmp(pages_.data() + page * kPageBytes, before.data() + page * kPageBytes,
                          kPageBytes),
              0);
  EXPECT_TRUE(std::all_of(pages_.data() + kPageBytes, pages_.data() + 3 * kPageBytes,
                          [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(transfers_.counts().stores, 1U);
  EXPECT_EQ(transfers_.counts().loads, 1U);
  EXPECT_EQ(device_->opened, 1) << "once a session";
}

// The engine numbers its exports by their order, over all accepted messages.
TEST_F(TransfersTest, ExportsAreNumberedInOrderOfArrival) {
  device_->opens_slowly = true;
  ASSERT_TRUE(transfers_.open(1, 1, kEngine, {}, handles()).ok());
  ASSERT_TRUE(device_->opening.await_entered(1));
  std::vector<copy::MemoryHandle> second;
  second.push_back(handle_of(memory_file(kPageBytes), kPageBytes));
  ASSERT_TRUE(transfers_.open(1, 2, kEngine, {}, std::move(second)).ok());
  EXPECT_FALSE(eventually([&] { return device_->open != 0; }, 300))
      << "the second has overtaken the first";
  device_->opening.open();
  for (const std::uint32_t request : {1U, 2U}) {
    const Answer got = answer();
    EXPECT_EQ(got.request, request);
    EXPECT_FALSE(got.refusal.refused()) << got.refusal.text;
  }
  EXPECT_EQ(device_->open, 2);
  CopyOrder beyond = order(CopyVerb::kStore, 0);
  beyond.pieces = {protocol::make_piece(1, kPageBytes)};
  EXPECT_EQ(transfers_.copy(1, std::move(beyond)).code(), Code::kInvalidArgument)
      << "the second allocation is the small one";
  CopyOrder within = order(CopyVerb::kStore, 0);
  within.pieces = {protocol::make_piece(0, kPageBytes * (kPages - 1)), protocol::make_piece(1, 0)};
  EXPECT_TRUE(transfers_.copy(1, std::move(within)).ok());
}

// The first opened allocation decides the context of a device's copies.
TEST_F(TransfersTest, MemoryOfASessionIsOfOneDevice) {
  constexpr copy::DeviceId kFirst{7}, kOther{8};
  ASSERT_TRUE(transfers_.open(1, 1, kEngine, kFirst, handles()).ok());
  EXPECT_FALSE(answer().refusal.refused());
  ASSERT_TRUE(transfers_.open(1, 2, kEngine, kOther, handles()).ok());
  EXPECT_EQ(answer().refusal.reason, TransferReason::kOtherDevice);
  EXPECT_EQ(device_->open, 0);
  EXPECT_EQ(device_->engines, 1) << "no context for the other out of memory of the first";
  ASSERT_TRUE(transfers_.withdraw(1, 3).ok());
  EXPECT_TRUE(answer().withdrawn);
  ASSERT_TRUE(transfers_.open(1, 4, kEngine, kOther, handles()).ok()) << "it may have moved";
  EXPECT_FALSE(answer().refusal.refused());
}

TEST_F(TransfersTest, RefusalClosesTheSessionUntilAllIsWithdrawn) {
  ASSERT_TRUE(transfers_.open(1, 1, kEngine, {}, handles(kPageBytes * kPages + 1)).ok());
  EXPECT_EQ(answer().refusal.reason, TransferReason::kSize);
  ASSERT_TRUE(transfers_.open(1, 2, kEngine, {}, handles()).ok()) << "sent before the engine knew";
  EXPECT_EQ(answer().refusal.reason, TransferReason::kSize);
  EXPECT_EQ(device_->open, 0);
  EXPECT_EQ(transfers_.way(1).refusal.reason, TransferReason::kSize);
  ASSERT_TRUE(transfers_.withdraw(1, 3).ok());
  EXPECT_TRUE(answer().withdrawn);
  ASSERT_TRUE(transfers_.open(1, 4, kEngine, {}, handles()).ok());
  EXPECT_FALSE(answer().refusal.refused());
}

TEST_F(TransfersTest, ExportsAreBoundedUntilWithdrawn) {
  const auto opened = [&](std::uint32_t request, std::size_t count) {
    std::vector<copy::MemoryHandle> many;
    while (many.size() < count) many.push_back(std::move(handles().front()));
    EXPECT_TRUE(transfers_.open(1, request, kEngine, {}, std::move(many)).ok());
    return answer().refusal;
  };
  constexpr std::size_t kEach = protocol::kMaxExportsPerMessage;
  for (std::uint32_t i = 0; i < protocol::kMaxExports / kEach; ++i)
    ASSERT_FALSE(opened(1 + i, kEach).refused());
  const copy::TransferRefusal beyond = opened(9, 1);
  EXPECT_EQ(beyond.reason, TransferReason::kBound);
  EXPECT_EQ(beyond.text, "more than 1024 allocations");
  ASSERT_TRUE(transfers_.withdraw(1, 10).ok());
  EXPECT_TRUE(answer().withdrawn);
  EXPECT_EQ(device_->open, 0);
  EXPECT_FALSE(opened(11, 1).refused());
}

TEST_F(TransfersTest, ForgedPieceIsRefused) {
  open(1);
  const std::vector<std::uint64_t> forged{
      protocol::make_piece(1, 0), protocol::make_piece(0, kPageBytes * kPages),
      protocol::make_piece(0, kPageBytes * (kPages - 1) + 1), protocol::kNoPiece};
  for (const std::uint64_t piece : forged) {
    CopyOrder made = order(CopyVerb::kStore, 0);
    made.pieces[1] = piece;
    EXPECT_EQ(transfers_.copy(1, std::move(made)).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(transfers_.copy(1, order(CopyVerb::kStore, protocol::kMaxCopies)).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(transfers_.copy(2, order(CopyVerb::kStore, 0)).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(transfers_.release(77));
}

// covers F-031
TEST_F(TransfersTest, SessionEndedDuringCopyIsBusyUntilWritesStop) {
  open(1);
  device_->gated = true;
  const std::uint32_t first = *flags_->take(), second = *flags_->take(), third = *flags_->take();
  for (const std::uint32_t flag : {first, second, third})
    ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, flag)).ok());
  ASSERT_TRUE(device_->gate.await_entered(2));  // as many as there are threads
  transfers_.end_session(1);
  EXPECT_TRUE(transfers_.busy(1));
  EXPECT_FALSE(transfers_.release(77));
  EXPECT_EQ(device_->open, 1) << "not closed under a copy";
  device_->gate.open();
  EXPECT_TRUE(flags_->wait(first).ok())
      << "the copy that had begun has ended, and its engine may know";
  EXPECT_TRUE(flags_->wait(second).ok());
  EXPECT_EQ(flags_->wait(third).status().code(), Code::kNotFound) << "the third never began";
  EXPECT_TRUE(eventually([&] { return !transfers_.busy(1); }, 10'000));
  EXPECT_TRUE(transfers_.release(77));
  EXPECT_EQ(device_->open, 0);
  EXPECT_EQ(transfers_.counts().stores, 2U);
}

// Its flag is ended, and one thread has not let go of the copy yet; the other opens memory
// meanwhile.
TEST_F(TransfersTest, FlagIsReusableAsSoonAsItsCopyEnded) {
  open(1);
  device_->gated = true;
  const std::uint32_t first = *flags_->take();
  ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, first)).ok());
  ASSERT_TRUE(device_->gate.await_entered(1));
  ASSERT_TRUE(transfers_.open(1, 2, kEngine, {}, handles(kPageBytes * kPages + 1)).ok());
  ASSERT_EQ(answer().refusal.reason, TransferReason::kSize)
      << "so that the copy has its memory for itself";
  device_->opens_slowly = true;
  ASSERT_TRUE(transfers_.open(2, 1, kEngine, {}, handles()).ok());
  ASSERT_TRUE(device_->opening.await_entered(1));
  device_->closes_slowly = true;
  device_->gate.open();
  ASSERT_TRUE(flags_->wait(first).ok());
  ASSERT_TRUE(device_->closing.await_entered(1));
  for (std::uint32_t i = 0; i < protocol::kMaxCopies; ++i) {
    const std::optional<std::uint32_t> flag = flags_->take();
    ASSERT_TRUE(flag) << i;
    ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, *flag)).ok())
        << i << " are asked for, as many as there are flags";
  }
  Status beyond;
  for (unsigned i = 0; i < Transfers::kThreads; ++i)
    beyond = transfers_.copy(1, order(CopyVerb::kStore, 0));
  EXPECT_EQ(beyond.code(), Code::kResourceExhausted) << "no engine has so many flags";
  device_->opening.open();
  device_->closing.open();
  transfers_.end_session(1);
  EXPECT_TRUE(eventually([&] { return !transfers_.busy(1); }, 10'000));
}

TEST_F(TransfersTest, WithdrawalWaitsForCopies) {
  open(1);
  device_->gated = true;
  const std::uint32_t flag = *flags_->take();
  ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, flag)).ok());
  ASSERT_TRUE(device_->gate.await_entered(1));
  ASSERT_TRUE(transfers_.withdraw(1, 5).ok());
  EXPECT_EQ(transfers_.withdraw(1, 6).code(), Code::kFailedPrecondition);
  EXPECT_EQ(transfers_.open(1, 7, kEngine, {}, handles()).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(transfers_.take_answers().empty());
  device_->gate.open();
  const Answer got = answer();
  EXPECT_TRUE(got.withdrawn);
  EXPECT_EQ(got.request, 5U);
  EXPECT_EQ(device_->open, 0);
  const std::uint32_t late = *flags_->take();
  ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, late)).ok())
      << "it may have met the withdrawal on its way";
  EXPECT_EQ(flags_->wait(late).status().code(), Code::kNotFound);
  ASSERT_TRUE(transfers_.open(1, 8, kEngine, {}, handles()).ok()) << "awake again";
  EXPECT_FALSE(answer().refusal.refused());
}

// covers F-028
TEST_F(TransfersTest, OpenFailureIsReported) {
  ASSERT_TRUE(transfers_.open(1, 1, static_cast<std::uint32_t>(::getpid()), {}, handles()).ok());
  EXPECT_EQ(answer().refusal.reason, TransferReason::kSameProcess);
  ASSERT_TRUE(transfers_.open(4, 1, kEngine, {}, handles(kPageBytes * kPages + 1)).ok());
  EXPECT_EQ(answer().refusal.reason, TransferReason::kSize);
  std::vector<copy::MemoryHandle> stale(1);
  stale[0].size_bytes = 4096;
  ASSERT_TRUE(transfers_.open(5, 1, kEngine, {}, std::move(stale)).ok());
  EXPECT_EQ(answer().refusal.reason, TransferReason::kNotOpened);
  EXPECT_EQ(transfers_.way(5).refusal.reason, TransferReason::kNotOpened);
  EXPECT_FALSE(transfers_.way(5).sidecar);
  EXPECT_EQ(device_->open, 0);
  device_->refusal = {TransferReason::kNoDevice, "none"};
  ASSERT_TRUE(transfers_.open(2, 1, kEngine, {}, handles()).ok());
  EXPECT_EQ(answer().refusal.reason, TransferReason::kNoDevice);
  transfers_.declined(3, {TransferReason::kMig, "a MIG instance"});
  EXPECT_EQ(transfers_.way(3).refusal.reason, TransferReason::kMig);
  transfers_.end_session(3);
  EXPECT_EQ(transfers_.way(3).refusal.reason, TransferReason::kNone);
}

TEST_F(TransfersTest, MissingMemoryOrThreadsFallBack) {
  device_->without_memory = true;
  ASSERT_TRUE(transfers_.open(2, 1, kEngine, {}, handles()).ok());
  EXPECT_EQ(answer().refusal.reason, TransferReason::kFailed);
  EXPECT_EQ(device_->open, 0);
  device_->without_memory = false;
  device_->without_threads = true;
  open(1);
  const std::uint32_t flag = *flags_->take();
  ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, flag)).ok());
  EXPECT_TRUE(flags_->wait(flag).ok());
}

// Contexts are made before an engine asks; after a failure the asking engine gets the error.
// covers F-036
TEST_F(TransfersTest, ExceptionFailsOnlyItsJob) {
  const auto device = std::make_shared<HostDevice>();
  device->throws = true;
  for (int kind = 1; kind <= 2; ++kind) {  // each of the two exceptions
    const Transfers other(std::make_unique<HostImporter>(device), {start_, kArenaBytes}, [] {});
    EXPECT_TRUE(eventually([&] { return device->thrown == kind; }, 10'000))
        << "prepare() was not called";
  }
  device_->throws = true;
  for (const std::uint32_t session : {1U, 2U}) {
    ASSERT_TRUE(transfers_.open(session, 1, kEngine, {}, handles()).ok());
    EXPECT_EQ(answer().refusal.reason, TransferReason::kFailed);
    EXPECT_EQ(device_->open, 0);
    transfers_.end_session(session);
  }
  device_->throws = false;
  open(3);
  device_->throws = true;
  for (int kind = 1; kind <= 2; ++kind) {
    const std::uint32_t flag = *flags_->take();
    ASSERT_TRUE(transfers_.copy(3, order(CopyVerb::kStore, flag)).ok());
    EXPECT_EQ(flags_->wait(flag).status().code(), Code::kResourceExhausted);
  }
  device_->throws = false;
  const std::uint32_t flag = *flags_->take();
  ASSERT_TRUE(transfers_.copy(3, order(CopyVerb::kStore, flag)).ok());
  EXPECT_TRUE(flags_->wait(flag).ok()) << "the device is unharmed";
  EXPECT_EQ(transfers_.counts().failed, 2U);
}

// covers F-030
TEST_F(TransfersTest, DeviceErrorIsReportedAndEndsAllCopies) {
  open(1);
  device_->failing = true;
  const std::uint32_t flag = *flags_->take();
  ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, flag)).ok());
  EXPECT_EQ(flags_->wait(flag).status().code(), Code::kUnavailable);
  EXPECT_EQ(transfers_.way(1).refusal.reason, TransferReason::kFailed);
  ASSERT_TRUE(transfers_.open(2, 1, kEngine, {}, handles()).ok());
  EXPECT_EQ(answer().refusal.reason, TransferReason::kFailed);
  EXPECT_EQ(transfers_.counts().failed, 1U);
}

TEST_F(TransfersTest, WithdrawnCopyIsNotMade) {
  open(1);
  const std::uint32_t flag = *flags_->take();
  EXPECT_EQ(flags_->wait(flag).status().code(), Code::kDeadlineExceeded) << "nobody was asked";
  ASSERT_TRUE(transfers_.copy(1, order(CopyVerb::kStore, flag)).ok());
  ASSERT_TRUE(transfers_.withdraw(1, 5).ok());
  EXPECT_TRUE(answer().withdrawn) << "behind the copy";
  EXPECT_TRUE(transfers_.release(77));
  EXPECT_EQ(transfers_.counts().stores, 0U);
  EXPECT_EQ(device_->gate.enter(), 0) << "no copy was begun";
}

}  // namespace
}  // namespace larder::transfer
