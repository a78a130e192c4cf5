// The other side of one session, in the hands of the test: an attachment over regions of its own,
// and the client's messages there.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "shim/client/attachment.h"
#include "shim/protocol/codec.h"
#include "shim/protocol/residency_layout.h"
#include "sidecar/store/index_writer.h"

namespace larder::client::testing_support {

class FakeSession {
 public:
  static constexpr std::uint64_t kArenaBytes = 4 << 20;

  explicit FakeSession(std::uint64_t capabilities = protocol::kCapabilityAct,
                       std::uint32_t version_minor = 0) {
    const store::IndexShape shape{64, store::IndexShape::buckets_for(64), kArenaBytes, 1, 1};
    std::vector<Fd> fds;
    fds.push_back(memory(kArenaBytes));
    fds.push_back(memory(shape.bytes()));
    fds.push_back(memory(sizeof(protocol::SessionRegion)));
    index_ = *Mapping::map_shared(fds[1], shape.bytes(), PROT_READ | PROT_WRITE, "index");
    writer_.emplace(index_.data(), shape);
    region_ =
        *Mapping::map_shared(fds[2], sizeof(protocol::SessionRegion), PROT_READ, "session region");
    char name[] = "/tmp/larder-fake-lock-XXXXXX";
    fds.emplace_back(::mkstemp(name));
    ::unlink(name);
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    peer_ = Fd(pair[1]);
    protocol::Welcome welcome{};
    welcome.version_major = 1;
    welcome.version_minor = version_minor;
    welcome.epoch = 1;
    welcome.capabilities = capabilities;
    welcome.arena_bytes = kArenaBytes;
    welcome.index_bytes = shape.bytes();
    welcome.session_bytes = sizeof(protocol::SessionRegion);
    if ((capabilities & protocol::kCapabilityResidency) != 0) {
      welcome.residency_bytes = protocol::residency_bytes(protocol::kLeastResidencyBuckets);
      fds.push_back(memory(welcome.residency_bytes));
      below_ = *Mapping::map_shared(fds[4], welcome.residency_bytes, PROT_READ | PROT_WRITE,
                                    "residency filter");
      residency_header().magic = protocol::kResidencyMagic;
      residency_header().version_major = protocol::kVersionMajor;
      residency_header().bucket_count = protocol::kLeastResidencyBuckets;
      residency_header().serving = 1;
    }
    auto wake = std::make_shared<const Fd>(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    auto made = Attachment::make(welcome, std::move(fds), Fd(pair[0]), std::move(wake));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    attachment = *std::move(made);
    attachment->set_namespace_handle(0, 0);
  }

  // The next packet from the client, which must be of this type; its list of records. Empty after 5
  // s.
  template <typename Head, typename Record>
  std::vector<Record> receive(protocol::MessageType type, std::uint32_t* request = nullptr,
                              Head* told = nullptr) {
    std::vector<Record> records;
    pollfd waited{peer_.get(), POLLIN, 0};
    const bool came = ::poll(&waited, 1, 5000) == 1;
    EXPECT_TRUE(came) << "no packet came for 5 s";
    if (!came) return records;
    const Result<protocol::Packet> packet = protocol::receive_packet(peer_.get());
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    Head head{};
    EXPECT_TRUE(decoder.ok() && decoder->type() == type && decoder->read(head));
    EXPECT_TRUE(decoder->read_all(head.count, 1U << 20, records));
    if (request != nullptr) *request = decoder->request();
    if (told != nullptr) *told = head;
    return records;
  }
  // The same of a message without a list.
  template <typename Body>
  Body receive_one(protocol::MessageType type) {
    Body body{};
    pollfd waited{peer_.get(), POLLIN, 0};
    const bool came = ::poll(&waited, 1, 5000) == 1;
    EXPECT_TRUE(came) << "no packet came for 5 s";
    if (!came) return body;
    const Result<protocol::Packet> packet = protocol::receive_packet(peer_.get());
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    EXPECT_TRUE(decoder.ok() && decoder->type() == type && decoder->read(body));
    return body;
  }
  // The chunks of the RESERVE that comes next, and their parents.
  struct Reserved {
    std::vector<protocol::BlockHash> hashes, parents;
  };
  Reserved receive_reserve() {
    Reserved reserved;
    pollfd waited{peer_.get(), POLLIN, 0};
    const bool came = ::poll(&waited, 1, 5000) == 1;
    EXPECT_TRUE(came) << "no packet came for 5 s";
    if (!came) return reserved;
    const Result<protocol::Packet> packet = protocol::receive_packet(peer_.get());
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    protocol::Reserve head{};
    EXPECT_TRUE(decoder.ok() && decoder->type() == protocol::MessageType::kReserve &&
                decoder->read(head) &&
                decoder->read_all(head.count, protocol::kMaxKeysPerReserve, reserved.hashes) &&
                decoder->read_all(head.parents, protocol::kMaxKeysPerReserve, reserved.parents));
    return reserved;
  }
  // Shows a chunk of namespace 0 in the index.
  void show(const protocol::BlockHash& hash, std::uint32_t payload_bytes,
            std::uint32_t piece_bytes) {
    const std::uint64_t generation =
        writer_->grant(0, attachment->key(0, hash, 0, 0), {0, payload_bytes, piece_bytes}, 1);
    EXPECT_NE(generation, 0U);
    writer_->commit(0, 1);
  }
  std::vector<protocol::SlotRef> receive_slots(protocol::MessageType type) {
    return receive<protocol::SlotList, protocol::SlotRef>(type);
  }
  bool silent() const {
    pollfd waited{peer_.get(), POLLIN, 0};
    return ::poll(&waited, 1, 0) == 0;
  }
  // As many grants as keys, of slots of their own; generation is slot + 100.
  static std::vector<protocol::Grant> grants(std::size_t count, std::uint64_t slot_bytes) {
    std::vector<protocol::Grant> grants;
    for (std::uint32_t slot = 0; slot < count; ++slot)
      grants.push_back({0, slot, slot + 100U, slot * slot_bytes});
    return grants;
  }
  Fd& peer() { return peer_; }
  // REQUIRES: made with kCapabilityResidency, as is the next.
  protocol::ResidencyHeader& residency_header() {
    return *reinterpret_cast<protocol::ResidencyHeader*>(below_.data());
  }
  // Shows a chunk in the residency filter.
  void show_below(const protocol::NamespaceId& id, const protocol::BlockHash& hash,
                  std::uint16_t shard, std::uint16_t group) {
    const protocol::ResidencyPlace place =
        protocol::residency_place(id, hash, shard, group, protocol::kLeastResidencyBuckets);
    auto* buckets = reinterpret_cast<protocol::ResidencyBucket*>(below_.data() +
                                                                 sizeof(protocol::ResidencyHeader));
    for (protocol::AtomicU64& word : buckets[place.bucket[0]].words) {
      if (word != 0) continue;
      word = place.tag;
      return;
    }
    ADD_FAILURE() << "the bucket is full";
  }
  std::uint64_t heartbeat() const {
    return reinterpret_cast<const protocol::SessionRegion*>(region_.data())->heartbeat;
  }

  std::shared_ptr<Attachment> attachment;

 private:
  static Fd memory(std::uint64_t bytes) {
    Fd fd(::memfd_create("larder-test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    return fd;
  }

  Mapping index_, region_, below_;
  std::optional<store::IndexWriter> writer_;
  Fd peer_;
};

}  // namespace larder::client::testing_support
