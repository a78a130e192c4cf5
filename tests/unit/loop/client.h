// A raw engine for tests: speaks packets, with no code of the shim's client. Every receive has a
// deadline.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>
#include <vector>

#include "shim/protocol/codec.h"
#include "shim/protocol/index_reader.h"
#include "shim/protocol/packet.h"
#include "shim/protocol/residency_layout.h"
#include "shim/protocol/session_layout.h"
#include "shim/protocol/version.h"

namespace larder::loop::testing_support {

using protocol::MessageType;

class Client {
 public:
  explicit Client(const std::string& socket_path) {
    socket_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
    connected_ =
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }
  int socket() const { return socket_.get(); }
  void close() { socket_.reset(); }

  Status send(protocol::Encoder& encoder, std::span<const int> fds = {}) {
    return send_raw(encoder.packet(), fds);
  }
  Status send_raw(std::span<const std::byte> bytes, std::span<const int> fds = {}) {
    return protocol::send_packet(socket_.get(), bytes, fds);
  }

  // The next packet; kDeadlineExceeded after 5 s.
  Result<protocol::Packet> receive() {
    pollfd waited{socket_.get(), POLLIN, 0};
    if (::poll(&waited, 1, 5000) != 1)
      return Status(Code::kDeadlineExceeded, "no packet came for 5 s");
    return protocol::receive_packet(socket_.get());
  }

  // kResourceExhausted: no packet has come and the session stands.
  Code receive_none() { return protocol::receive_packet(socket_.get()).status().code(); }

  // The ERROR that ends the session: code and text. kUnavailable: the socket closed without one.
  Status receive_error() {
    for (;;) {
      Result<protocol::Packet> packet = receive();
      if (!packet.ok()) return packet.status();
      Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
      if (!decoder.ok()) return decoder.status();
      if (decoder->type() != MessageType::kError) continue;
      protocol::Error error{};
      std::string text;
      if (!decoder->read(error) || !decoder->read_text(error.text_bytes, 8192, text))
        return {Code::kDataLoss, "torn ERROR"};
      return {static_cast<Code>(error.code), text};
    }
  }

  Status hello(std::uint32_t major = protocol::kVersionMajor, const Client* previous = nullptr) {
    protocol::Hello hello{};
    if (previous != nullptr) hello.previous_session = previous->welcome_.session_token;
    if (previous != nullptr) hello.previous_epoch = previous->welcome_.epoch;
    hello.version_major = major;
    hello.version_minor = 7;  // a newer minor is fine
    hello.capabilities = capabilities;
    hello.engine = protocol::make_short_text("test engine");
    protocol::Encoder encoder(MessageType::kHello, 1);
    encoder.append(hello);
    return send(encoder);
  }

  // As if this had been a session of this engine.
  void had(std::uint64_t token, std::uint64_t epoch) {
    welcome_.session_token = token;
    welcome_.epoch = epoch;
  }

  // HELLO, WELCOME, maps, lock, ATTACHED.
  void attach() { attach_after(nullptr, {}); }
  // The same as the next session of the engine that `previous` is.
  void attach_after(const Client* previous, const std::vector<protocol::SlotRef>& still_written) {
    ASSERT_TRUE(hello(protocol::kVersionMajor, previous).ok());
    Result<protocol::Packet> packet = receive();
    ASSERT_TRUE(packet.ok()) << packet.status().to_string();
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    ASSERT_TRUE(decoder.ok());
    ASSERT_EQ(decoder->type(), MessageType::kWelcome);
    ASSERT_TRUE(decoder->read(welcome_));
    const bool with_residency =
        (capabilities & welcome_.capabilities & protocol::kCapabilityResidency) != 0;
    ASSERT_EQ(packet->fds.size(), with_residency ? 5U : 4U);
    if (with_residency) below_ = map(packet->fds[4], welcome_.residency_bytes, PROT_READ);
    arena_ = map(packet->fds[0], welcome_.arena_bytes, PROT_READ | PROT_WRITE);
    index_ = map(packet->fds[1], welcome_.index_bytes, PROT_READ);
    session_ = map(packet->fds[2], welcome_.session_bytes, PROT_READ | PROT_WRITE);
    lock_ = std::move(packet->fds[3]);
    take_lock();
    protocol::Encoder encoder(MessageType::kAttached, 0);
    encoder.append(protocol::Attached{static_cast<std::uint32_t>(still_written.size()), 0});
    encoder.append_all(std::span(still_written));
    ASSERT_TRUE(send(encoder).ok());
  }

  void take_lock() {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    ASSERT_EQ(::fcntl(lock_.get(), F_SETLK, &lock), 0);
  }
  void drop_lock() {
    struct flock lock {};
    lock.l_type = F_UNLCK;
    lock.l_whence = SEEK_SET;
    ASSERT_EQ(::fcntl(lock_.get(), F_SETLK, &lock), 0);
  }

  Status send_open_namespace(const std::string& fingerprint, std::uint32_t piece_bytes = 4096,
                             std::uint32_t request = 2, const std::string& model = "test-model") {
    protocol::OpenNamespace open{};
    open.id = protocol::namespace_id(fingerprint);
    open.group_count = 1;
    open.shard_count = 1;
    open.chunk_tokens = 256;
    open.text_bytes = static_cast<std::uint32_t>(fingerprint.size());
    open.model = protocol::make_short_text(model);
    protocol::Encoder encoder(MessageType::kOpenNamespace, request);
    return send(encoder.append(open)
                    .append(protocol::GroupLayout{piece_bytes, 2, 0})
                    .append_text(fingerprint));
  }
  // Returns the handle; `difference` gets the text.
  std::uint32_t open_namespace(const std::string& fingerprint, std::uint32_t piece_bytes = 4096,
                               std::string* difference = nullptr, std::uint32_t request = 2) {
    EXPECT_TRUE(send_open_namespace(fingerprint, piece_bytes, request).ok());
    Result<protocol::Packet> packet = receive();
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    if (!packet.ok()) return 0;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    protocol::Namespace answer{};
    std::string text;
    EXPECT_TRUE(decoder.ok() && decoder->type() == MessageType::kNamespace &&
                decoder->read(answer));
    EXPECT_TRUE(decoder->read_text(answer.text_bytes, 8192, text));
    if (difference != nullptr) *difference = text;
    return answer.handle;
  }

  // The namespace that this request opened.
  void close_namespace(std::uint32_t request, std::uint32_t flags = 0) {
    protocol::Encoder encoder(MessageType::kCloseNamespace, 0);
    ASSERT_TRUE(send(encoder.append(protocol::CloseNamespace{request, flags})).ok());
  }

  std::vector<protocol::Grant> reserve(std::uint32_t handle,
                                       const std::vector<protocol::BlockHash>& hashes,
                                       const std::vector<protocol::BlockHash>& parents = {}) {
    protocol::Encoder encoder(MessageType::kReserve, 3);
    encoder
        .append(protocol::Reserve{handle, 0, 0, static_cast<std::uint32_t>(hashes.size()),
                                  static_cast<std::uint32_t>(parents.size())})
        .append_all(std::span(hashes))
        .append_all(std::span(parents));
    EXPECT_TRUE(send(encoder).ok());
    Result<protocol::Packet> packet = receive();
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    std::vector<protocol::Grant> grants;
    if (!packet.ok()) return grants;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    protocol::Granted granted{};
    EXPECT_TRUE(decoder.ok() && decoder->type() == MessageType::kGranted &&
                decoder->request() == 3 && decoder->read(granted));
    EXPECT_TRUE(decoder->read_all(granted.count, protocol::kMaxKeysPerReserve, grants));
    return grants;
  }

  void commit(const protocol::Grant& grant, std::uint64_t root) {
    protocol::Encoder encoder(MessageType::kCommit, 0);
    encoder.append(protocol::SlotList{1, 0})
        .append(protocol::CommitRecord{grant.slot, 0, grant.generation, root});
    ASSERT_TRUE(send(encoder).ok());
  }

  void send_slot(MessageType type, std::uint32_t slot, std::uint64_t generation) {
    protocol::Encoder encoder(type, 0);
    encoder.append(protocol::SlotList{1, 0}).append(protocol::SlotRef{slot, 0, generation});
    ASSERT_TRUE(send(encoder).ok());
  }

  // The answer to ACT, or zeros.
  protocol::Acted act(std::uint32_t handle, protocol::Verb verb,
                      const std::vector<protocol::BlockHash>& hashes) {
    protocol::Encoder encoder(MessageType::kAct, 4);
    encoder.append(protocol::Act{handle, static_cast<std::uint32_t>(verb),
                                 static_cast<std::uint32_t>(hashes.size()), 0});
    encoder.append_all(std::span(hashes));
    EXPECT_TRUE(send(encoder).ok());
    protocol::Acted acted{};
    const Result<protocol::Packet> packet = receive();
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    if (!packet.ok()) return acted;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    EXPECT_TRUE(decoder.ok() && decoder->type() == MessageType::kActed && decoder->request() == 4 &&
                decoder->read(acted));
    return acted;
  }

  void send_fetch(std::uint32_t request, std::uint32_t handle,
                  const std::vector<protocol::BlockHash>& hashes,
                  std::uint32_t deadline_ms = 5000) {
    protocol::Encoder encoder(MessageType::kFetch, request);
    encoder.append(
        protocol::Fetch{handle, deadline_ms, static_cast<std::uint32_t>(hashes.size()), 0});
    encoder.append_all(std::span(hashes));
    ASSERT_TRUE(send(encoder).ok());
  }
  // The answer, which comes next; or an empty one.
  protocol::Fetched receive_fetched(std::uint32_t request) {
    protocol::Fetched fetched{UINT32_MAX, 0, 0, 0, 0};
    const Result<protocol::Packet> packet = receive();
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    if (!packet.ok()) return fetched;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    EXPECT_TRUE(decoder.ok() && decoder->type() == MessageType::kFetched &&
                decoder->request() == request && decoder->read(fetched));
    return fetched;
  }
  void send_probe(std::uint32_t request, std::uint32_t handle,
                  const std::vector<protocol::BlockHash>& hashes,
                  std::uint32_t deadline_ms = 5000) {
    protocol::Encoder encoder(MessageType::kProbe, request);
    encoder.append(
        protocol::Probe{handle, deadline_ms, static_cast<std::uint32_t>(hashes.size()), 0});
    encoder.append_all(std::span(hashes));
    ASSERT_TRUE(send(encoder).ok());
  }
  // The answer, which comes next; or an empty one.
  protocol::Probed receive_probed(std::uint32_t request) {
    protocol::Probed probed{UINT32_MAX, 0, 0, 0, 0, 0};
    const Result<protocol::Packet> packet = receive();
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    if (!packet.ok()) return probed;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    EXPECT_TRUE(decoder.ok() && decoder->type() == MessageType::kProbed &&
                decoder->request() == request && decoder->read(probed));
    return probed;
  }
  void end_fetch(std::uint32_t request) {
    protocol::Encoder encoder(MessageType::kFetchEnd, 0);
    ASSERT_TRUE(send(encoder.append(protocol::EndFetch{request, 0})).ok());
  }

  // The list of the next message, which must be of this type.
  std::vector<protocol::SlotRef> receive_slots(MessageType type) {
    Result<protocol::Packet> packet = receive();
    EXPECT_TRUE(packet.ok()) << packet.status().to_string();
    std::vector<protocol::SlotRef> slots;
    if (!packet.ok()) return slots;
    Result<protocol::Decoder> decoder = protocol::Decoder::open(packet->bytes);
    protocol::SlotList list{};
    EXPECT_TRUE(decoder.ok() && decoder->type() == type && decoder->read(list));
    EXPECT_TRUE(decoder->read_all(list.count, protocol::kMaxGrantsPerMessage, slots));
    return slots;
  }

  protocol::SessionRegion& region() {
    return *reinterpret_cast<protocol::SessionRegion*>(session_.data());
  }
  std::byte* arena() { return arena_.data(); }
  protocol::IndexReader index() {
    return *protocol::IndexReader::open(index_.data(), index_.size());
  }
  const protocol::Welcome& welcome() const { return welcome_; }
  protocol::ResidencyReader below() {
    return *protocol::ResidencyReader::open(below_.data(), below_.size());
  }
  void beat() { region().heartbeat.fetch_add(1); }

  std::uint64_t capabilities = 0;  // that HELLO tells

 private:
  static Mapping map(const Fd& fd, std::size_t size, int prot) {
    Result<Mapping> mapping = Mapping::map_shared(fd, size, prot, "test");
    EXPECT_TRUE(mapping.ok()) << mapping.status().to_string();
    return mapping.ok() ? std::move(*mapping) : Mapping();
  }

  Fd socket_;
  bool connected_ = false;
  protocol::Welcome welcome_{};
  Mapping arena_, index_, session_, below_;
  Fd lock_;
};

}  // namespace larder::loop::testing_support
