#include "shim/client/handshake.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "shim/base/test_point.h"
#include "shim/client/namespaces.h"
#include "shim/protocol/codec.h"
#include "shim/protocol/version.h"

namespace larder::client {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::MessageType;

// The error for a socket without permission: who may use the socket, as far as this process can
// see, and the user of this process.
Status no_permission(const std::string& path) {
  std::string text = "connect to " + path + ": permission denied: this engine runs as uid " +
                     std::to_string(::geteuid()) + ", gid " + std::to_string(::getegid());
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return {Code::kPermissionDenied, text + " and may not look into the socket's directory"};
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", info.st_mode & 07777U);
  // The numbers of both sides in one line: in a pod neither side can look at the other.
  text += "; larderd's socket is for uid " + std::to_string(info.st_uid) + " and the group " +
          std::to_string(info.st_gid) + " (mode " + mode.data() +
          "). Run the engine as that user or with that group, or set larderd's socket_mode (0666: "
          "every user)";
  return {Code::kPermissionDenied, std::move(text)};
}

Result<Fd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return Status(Code::kInvalidArgument, "socket path is too long: " + path);
  path.copy(address.sun_path, path.size());
  // SEQPACKET keeps the borders of messages: a short read never splits one.
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::from_errno(errno, "socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
    return fd;
  const int error = errno;
  if (error == EACCES || error == EPERM) return no_permission(path);
  // EAGAIN of connect(): the queue of connections is full, because larderd is stopped or busy.
  if (error == EAGAIN)
    return Status(Code::kUnavailable,
                  "connect to " + path + ": larderd does not accept connections now");
  return Status::from_errno(error, "connect to " + path);
}

// The next packet; an error if none arrives within the deadline.
Result<protocol::Packet> await_packet(int socket, const HandshakeInput& input,
                                      const std::atomic<bool>& stop) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(protocol::kHandshakeTimeoutMs);
  while (!stop) {
    Result<protocol::Packet> packet = protocol::receive_packet(socket);
    if (packet.ok() || packet.status().code() != Code::kResourceExhausted) return packet;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      return Status(Code::kDeadlineExceeded, "larderd did not answer the handshake in time");
    // Only `stop` wakes us before a session exists, so a readable eventfd ends the loop.
    pollfd waits[] = {{socket, POLLIN, 0}, {input.wake->get(), POLLIN, 0}};
    ::poll(waits, stop ? 1 : 2, static_cast<int>(left));
  }
  return Status(Code::kUnavailable, "closing");
}

// The packet's body if the type is the expected one. An ERROR becomes its status.
Result<protocol::Decoder> expect(const protocol::Packet& packet, MessageType type,
                                 const char* name) {
  Result<protocol::Decoder> decoder = protocol::Decoder::open(packet.bytes);
  if (!decoder.ok() || decoder->type() == type) return decoder;
  protocol::Error error{};
  std::string text;
  if (decoder->type() == MessageType::kError && decoder->read(error) &&
      decoder->read_text(error.text_bytes, protocol::kMaxPacketBytes, text))
    return Status(error.code == 0 ? Code::kInternal : static_cast<Code>(error.code),
                  "larderd refused: " + text);
  return Status(Code::kInvalidArgument,
                std::string("expected ") + name + " from larderd, got another message");
}

Status send_hello(int socket, const HandshakeInput& input) {
  protocol::Hello hello{};
  hello.version_major = protocol::kVersionMajor;
  hello.version_minor = protocol::kVersionMinor;
  hello.capabilities = protocol::kCapabilityResidency;
  // larderd finds the slots of the earlier session by the token, and gives them to this one.
  hello.previous_session = input.previous_token;
  hello.previous_epoch = input.previous_epoch;
  hello.engine = protocol::make_short_text(input.engine);
  return protocol::send_packet(socket,
                               protocol::Encoder(MessageType::kHello, 1).append(hello).packet());
}

Status send_attached(int socket, const std::vector<protocol::SlotRef>& still_writing) {
  // The rest is safe without a mention: the earlier session's lock lasts as long as the
  // writers.
  const std::span<const protocol::SlotRef> refs(
      still_writing.data(),
      std::min<std::size_t>(still_writing.size(), protocol::kMaxGrantsPerMessage));
  protocol::Encoder message(MessageType::kAttached, 0);
  message.append(protocol::Attached{static_cast<std::uint32_t>(refs.size()), 0}).append_all(refs);
  return protocol::send_packet(socket, message.packet());
}

// Shards of different layouts are kept apart since version 1.1.
Status send_namespace(const Attachment& attachment, int socket, const NamespaceSpec& spec) {
  // Refused by an error and not by a guess: equal keys of different layouts would give wrong
  // bytes.
  if (spec.layout_shard != 0 && attachment.welcome().version_minor < 1)
    return {Code::kUnsupported,
            "shards with different layers (a pipeline) need a larderd of protocol 1.1, this one "
            "speaks 1.0"};
  return protocol::send_packet(
      socket, open_namespace_message(spec, NamespaceKind::kTokens, spec.fingerprint, spec.model, 2)
                  .packet());
}

Result<std::shared_ptr<Attachment>> receive_welcome(Fd socket, const HandshakeInput& input,
                                                    const std::atomic<bool>& stop) {
  Result<protocol::Packet> packet = await_packet(socket.get(), input, stop);
  if (!packet.ok()) return packet.status();
  Result<protocol::Decoder> decoder = expect(*packet, MessageType::kWelcome, "WELCOME");
  if (!decoder.ok()) return decoder.status();
  protocol::Welcome welcome{};
  if (!decoder->read(welcome)) return Status(Code::kInvalidArgument, "WELCOME is too short");
  // Before any region is mapped: another major version may have other layouts.
  if (welcome.version_major != protocol::kVersionMajor)
    return Status(Code::kUnsupported,
                  "larderd speaks protocol " + std::to_string(welcome.version_major) +
                      ", this shim speaks " + std::to_string(protocol::kVersionMajor));
  LARDER_POINT(welcome_received);
  return Attachment::make(welcome, std::move(packet->fds), std::move(socket), input.wake,
                          input.earlier.get());
}

}  // namespace

Result<HandshakeOutput> shake_hands(const HandshakeInput& input, const NamespaceSpec& spec,
                                    const std::atomic<bool>& stop) {
  Result<Fd> connected = connect_to(input.socket);
  if (!connected.ok()) return connected.status();
  LARDER_POINT(connected);
  // A refusing larderd closes the socket at once. Its ERROR can still be read.
  if (Status sent = send_hello(connected->get(), input);
      !sent.ok() && sent.code() != Code::kUnavailable)
    return sent;
  LARDER_POINT(hello_sent);
  Result<std::shared_ptr<Attachment>> attachment =
      receive_welcome(*std::move(connected), input, stop);
  if (!attachment.ok()) return attachment.status();

  // Holds are announced before ATTACHED, because larderd hands slots on after ATTACHED.
  if (input.earlier && input.earlier->same_arena(**attachment))
    input.earlier->holds().carry_over(
        {*attachment, &(*attachment)->holds()});  // mutation: holds-carried
  LARDER_POINT(holds_announced_again);
  const int socket = (*attachment)->outbox().socket();  // no other thread uses the socket yet
  if (Status sent = send_attached(socket, input.still_writing); !sent.ok()) return sent;
  LARDER_POINT(attached_sent);
  // larderd counts the silence from here; the first regular beat comes after the handshake.
  (*attachment)->beat();
  HandshakeOutput output;
  if (spec.fingerprint.empty()) {
    output.attachment = *std::move(attachment);
    return output;
  }
  if (Status sent = send_namespace(**attachment, socket, spec); !sent.ok()) return sent;
  LARDER_POINT(namespace_sent);
  Result<protocol::Packet> packet = await_packet(socket, input, stop);
  if (!packet.ok()) return packet.status();
  Result<protocol::Decoder> decoder = expect(*packet, MessageType::kNamespace, "NAMESPACE");
  if (!decoder.ok()) return decoder.status();
  protocol::Namespace opened{};
  if (!decoder->read(opened) ||
      !decoder->read_text(opened.text_bytes, protocol::kMaxPacketBytes, output.difference))
    return Status(Code::kInvalidArgument, "NAMESPACE is too short");
  (*attachment)->set_namespace_handle(0, opened.handle);
  LARDER_POINT(namespace_opened);
  output.attachment = *std::move(attachment);
  return output;
}

}  // namespace larder::client
