// SidecarCopies with a larderd in the hands of the test, which copies on request: the handling of
// differences and of lack of memory, and the log.
#include "shim/client/sidecar_copies.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "shim/protocol/transfer_messages.h"
#include "sidecar/transfer/transfer_region.h"
#include "tests/unit/client/copies.h"
#include "tests/unit/client/fake_session.h"
#include "tests/unit/client/no_memory.h"

namespace larder::client {
namespace {

using protocol::Encoder;
using protocol::MessageType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_support::FakeSession;
using transfer::TransferMemory;

constexpr std::uint64_t kPageBytes = 4096, kPages = 4;

// The engine's own: copies, and digests its pages, which may have become others' meanwhile.
class OwnCopies final : public testing_support::HostCopies {
 public:
  Result<std::uint64_t> store(const copy::PieceList& from,
                              std::span<std::byte> slot) const override {
    ++stores;
    return HostCopies::store(from, slot);
  }
  Status digests(const copy::PieceList& of, std::span<std::uint64_t> table) const override {
    ++probed;
    gate.enter();
    if (gated) gate.pass();
    const std::uint64_t units = protocol::units_per_piece(of.piece_bytes);
    for (std::size_t i = 0; i < of.pieces.size(); ++i)
      protocol::piece_digests(of.pieces[i], of.piece_bytes, table.data() + i * units);
    if (others) table[0] ^= 1;
    return {};
  }
  mutable int stores = 0, probed = 0;
  mutable testing_support::Gate gate;
  bool gated = false;
  bool others = false;
};

// Of pages in host memory, as if on a device.
class PageExporter final : public copy::MemoryExporter {
 public:
  copy::TransferRefusal take(std::span<const copy::PageSpan> pages, copy::PageExport& made,
                             std::vector<copy::MemoryHandle>& handles) const override {
    made = copy::PageExport({}, {{pages.front().first, pages.front().bytes, 1}});
    handles.emplace_back().size_bytes = pages.front().bytes;
    if (none_behind_it) testing_support::set_no_memory(true);
    return {};
  }
  // The last thing that is asked before a copy is asked for.
  Status still_there(const copy::PageExport&) const override {
    if (out_of_memory) testing_support::set_no_memory(true);
    return gone;
  }
  bool out_of_memory = false;
  bool none_behind_it = false;  // no memory is left once the pages are taken
  Status gone;
};

// A session in which larderd copies by order of the flags, until the session goes.
class CopyingSession {
 public:
  // larderd has `pages` and `slot` open.
  CopyingSession(std::byte* pages, std::span<std::byte> slot) : pages_(pages), slot_(slot) {}
  std::shared_ptr<Attachment> attachment() { return session_.attachment; }

  // Answers an EXPORT.
  void open(SidecarCopies& copies) {
    ASSERT_EQ(
        (session_.receive<protocol::Export, protocol::ExportedRange>(MessageType::kExport).size()),
        1U);
    Encoder answer(MessageType::kExported, 0);
    answer.append(protocol::Exported{0, 0, TransferMemory::size_bytes()});
    Result<protocol::Decoder> decoder = protocol::Decoder::open(answer.packet());
    ASSERT_TRUE(decoder.ok() && decoder->type() == MessageType::kExported);
    std::vector<Fd> fds;
    fds.emplace_back(::dup(region_.fd()));
    ASSERT_TRUE(copies.answered(*attachment(), *decoder, std::move(fds)).ok());
    ASSERT_TRUE(copies.open());
  }
  // Copies on a thread of its own from here on.
  void serve() {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd waited{session_.peer().get(), POLLIN, 0};
        if (::poll(&waited, 1, 10) == 1) copy();
      }
    });
  }
  std::atomic<int> copied{0};  // chunks

 private:
  void copy() {
    const Result<protocol::Packet> packet = protocol::receive_packet(session_.peer().get());
    if (!packet.ok()) return;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    protocol::Copy asked{};
    std::vector<std::uint64_t> named;
    if (decoder->type() != MessageType::kCopy || !decoder->read(asked) ||
        !decoder->read_all(asked.count, kPages, named))
      return;
    if (!region_.take(asked.flag)) return;
    std::vector<std::byte*> pieces;
    for (const std::uint64_t piece : named)
      pieces.push_back(pages_ + protocol::piece_offset(piece));
    const Result<std::uint64_t> root =
        copy::host_copy_engine().store({pieces, kPageBytes, nullptr}, slot_);
    ++copied;
    region_.end(asked.flag, root.status().code(), root.ok() ? *root : 0);
  }

  std::byte* const pages_;
  const std::span<std::byte> slot_;
  FakeSession session_{protocol::kCapabilityTransfer};
  TransferMemory region_ = *TransferMemory::create();
  std::jthread thread_;
};

class SidecarCopiesTest : public testing::Test {
 protected:
  SidecarCopiesTest() {
    for (std::size_t i = 0; i < kPages * kPageBytes; ++i)
      pages_.get()[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  std::unique_ptr<CopyingSession> begin() {
    auto session = std::make_unique<CopyingSession>(pages_.get(), slot());
    copies_.beaten(*session->attachment(), pages_of_all_, true);
    session->open(copies_);
    session->serve();
    while (log_.take()) {
    }
    return session;
  }
  std::span<std::byte> slot() { return {slot_.get(), kSlotBytes}; }
  bool store(CopyingSession& session) {
    std::vector<std::byte*> pieces;
    for (std::size_t i = 0; i < kPages; ++i) pieces.push_back(pages_.get() + i * kPageBytes);
    return copies_.store(*session.attachment(), {1, 0, 5}, {pieces, kPageBytes, nullptr}, slot())
        .ok();
  }
  std::vector<std::string> said() {
    std::vector<std::string> lines;
    while (std::optional<std::string> line = log_.take()) lines.push_back(*line);
    return lines;
  }

  // Whether an EXPORT has come.
  static bool asked(FakeSession& session) {
    pollfd waited{session.peer().get(), POLLIN, 0};
    return ::poll(&waited, 1, 50) == 1;
  }

  static constexpr std::size_t kSlotBytes = (kPages + 1) * kPageBytes;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  Memory pages_{static_cast<std::byte*>(std::aligned_alloc(4096, kPages* kPageBytes))};
  const std::vector<GroupPages> pages_of_all_{{{pages_.get(), kPageBytes, kPageBytes, kPages}}};
  Memory slot_{static_cast<std::byte*>(std::aligned_alloc(4096, kSlotBytes))};
  LogRing log_;
  OwnCopies own_;
  PageExporter exporter_;
  std::vector<std::function<void()>> background_;  // where `later_`
  bool later_ = false, busy_ = false;
  SidecarCopies copies_{own_, log_,
                        [this](std::function<void()> work) {
                          if (busy_) return false;
                          later_ ? background_.push_back(std::move(work)) : work();
                          return true;
                        },
                        exporter_};
};

TEST_F(SidecarCopiesTest, StoreByLarderdIsVerifiedOnThePages) {
  const auto session = begin();
  EXPECT_TRUE(store(*session));
  EXPECT_EQ(session->copied, 1);
  EXPECT_EQ(own_.stores, 0);
}

// Looking at pages, and naming pages, waits for the GPU; the thread of the heartbeat must not.
TEST_F(SidecarCopiesTest, HeartbeatThreadInspectsNoPage) {
  FakeSession session{protocol::kCapabilityTransfer};
  later_ = true;
  for (int beat = 0; beat < 3; ++beat) copies_.beaten(*session.attachment, pages_of_all_, true);
  ASSERT_EQ(background_.size(), 1U) << "one at a time";
  EXPECT_FALSE(asked(session));
  background_.front()();
  EXPECT_TRUE(asked(session));
}

#ifndef LARDER_SANITIZED  // the allocator of a sanitizer never fails
// On a thread of the pool, where an exception would end the engine. Larderd may have received a
// part.
TEST_F(SidecarCopiesTest, ExportWithoutMemoryEndsTheSession) {
  FakeSession session{protocol::kCapabilityTransfer};
  exporter_.none_behind_it = true;
  EXPECT_NO_THROW(copies_.beaten(*session.attachment, pages_of_all_, true));
  testing_support::set_no_memory(false);
  EXPECT_TRUE(session.attachment->outbox().closed());
  copies_.lost(*session.attachment);
  exporter_.none_behind_it = false;
  FakeSession next{protocol::kCapabilityTransfer};
  copies_.beaten(*next.attachment, pages_of_all_, true);
  EXPECT_TRUE(asked(next));
}
#endif

TEST_F(SidecarCopiesTest, ExportForALostSessionIsDiscarded) {
  FakeSession first{protocol::kCapabilityTransfer}, second{protocol::kCapabilityTransfer};
  later_ = true;
  copies_.beaten(*first.attachment, pages_of_all_, true);
  copies_.lost(*first.attachment);
  copies_.beaten(*second.attachment, pages_of_all_, true);
  ASSERT_EQ(background_.size(), 2U);
  background_[0]();
  EXPECT_FALSE(asked(second));
  background_[1]();
  EXPECT_TRUE(asked(second));
}

TEST_F(SidecarCopiesTest, LeavingPagesAreNotExportedUntilTheyReturn) {
  FakeSession session{protocol::kCapabilityTransfer};
  later_ = true;
  copies_.beaten(*session.attachment, pages_of_all_, true);
  EXPECT_TRUE(copies_.leave(std::chrono::milliseconds(1)).ok());
  own_.probed = 0;
  background_.front()();
  EXPECT_EQ(own_.probed, 0);
  copies_.back();
  copies_.beaten(*session.attachment, pages_of_all_, true);
  ASSERT_EQ(background_.size(), 2U);
  background_.back()();
  EXPECT_TRUE(asked(session));
}

TEST_F(SidecarCopiesTest, ReleasingPagesWaitsForTheInspection) {
  FakeSession session{protocol::kCapabilityTransfer};
  later_ = true;
  own_.gated = true;
  copies_.beaten(*session.attachment, pages_of_all_, true);
  std::jthread probes([&] { background_.front()(); });
  ASSERT_TRUE(own_.gate.await_entered(1));
  EXPECT_EQ(copies_.leave(std::chrono::milliseconds(20)).code(), Code::kDeadlineExceeded);
  own_.gate.open();
  EXPECT_TRUE(copies_.leave(std::chrono::seconds(10)).ok());
}

TEST_F(SidecarCopiesTest, BusyInspectionIsRetriedAtTheNextHeartbeat) {
  FakeSession session{protocol::kCapabilityTransfer};
  busy_ = true;
  copies_.beaten(*session.attachment, pages_of_all_, true);
  EXPECT_FALSE(asked(session));
  busy_ = false;
  copies_.beaten(*session.attachment, pages_of_all_, true);
  EXPECT_TRUE(asked(session));
}

// Pages become others' now and then during their store: no session pays for the pages of the one
// before.
TEST_F(SidecarCopiesTest, DifferencesAreCountedAfreshAfterReexport) {
  const auto first = begin();
  own_.others = true;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(store(*first));
  EXPECT_TRUE(copies_.open());
  copies_.lost(*first->attachment());
  const auto second = begin();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(store(*second));
  EXPECT_TRUE(copies_.open()) << "two of this session";
  EXPECT_TRUE(store(*second));
  EXPECT_FALSE(copies_.open());
  EXPECT_EQ(own_.stores, 5) << "each was stored by the engine itself";
}

TEST_F(SidecarCopiesTest, PermanentEndIsLoggedOnce) {
  const auto session = begin();
  own_.others = true;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(store(*session));
  EXPECT_THAT(said(), ElementsAre(testing::AllOf(HasSubstr("error "), HasSubstr("not_verified"),
                                                 Not(HasSubstr("for now")))));
}

TEST_F(SidecarCopiesTest, TemporaryEndIsLoggedOnce) {
  const auto session = begin();
  exporter_.gone = {Code::kNotFound, "another is there"};
  EXPECT_TRUE(store(*session));
  EXPECT_FALSE(copies_.open());
  EXPECT_THAT(said(), ElementsAre(testing::AllOf(HasSubstr("info "), HasSubstr("not_verified"),
                                                 HasSubstr("for now"))));
}

// "The driver does not say" is no "for now": a new question at each beat would get the same answer.
// covers F-040
TEST_F(SidecarCopiesTest, UnknownMemoryStateEndsSidecarCopiesForGood) {
  const auto session = begin();
  exporter_.gone = {Code::kUnavailable, "cuPointerGetAttribute: CUDA_ERROR_INVALID_CONTEXT (201)"};
  EXPECT_TRUE(store(*session));
  EXPECT_FALSE(copies_.open());
  EXPECT_EQ(session->copied, 0);
  EXPECT_THAT(said(), ElementsAre(testing::AllOf(HasSubstr("error "), HasSubstr("INVALID_CONTEXT"),
                                                 Not(HasSubstr("for now")))));
}

#ifndef LARDER_SANITIZED
TEST_F(SidecarCopiesTest, OutOfMemoryCostsOneCopyAndKeepsItsFlag) {
  const auto session = begin();
  exporter_.out_of_memory = true;
  for (std::uint32_t i = 0; i < protocol::kMaxCopies; ++i) {
    bool thrown = false;
    try {
      store(*session);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    testing_support::set_no_memory(false);
    ASSERT_TRUE(thrown);
  }
  EXPECT_EQ(session->copied, 0);
  exporter_.out_of_memory = false;
  EXPECT_TRUE(store(*session));
  EXPECT_EQ(session->copied, 1) << "no flag is left to ask by";
}
#endif

}  // namespace
}  // namespace larder::client
