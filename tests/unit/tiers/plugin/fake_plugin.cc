#include "tests/unit/tiers/plugin/fake_plugin.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <span>
#include <utility>

#include "shim/protocol/packet.h"

namespace larder::plugin::testing_support {
namespace {

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

template <class T>
T read(const std::string& bytes, std::size_t at) {
  T value{};
  if (at + sizeof(value) <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

std::string text(const std::string& value) {
  return raw(static_cast<std::uint16_t>(value.size())) + value;
}

std::string text_at(const std::string& bytes, std::size_t at) {
  return bytes.substr(at + 2, read<std::uint16_t>(bytes, at));
}

bool readable(const Fd& socket, int ms) {
  pollfd polled{socket.get(), POLLIN, 0};
  return ::poll(&polled, 1, ms) == 1;
}

}  // namespace

std::string packet_of(Kind kind, std::uint16_t count, std::uint64_t ticket,
                      const std::string& body) {
  return raw(static_cast<std::uint16_t>(kind)) + raw(count) +
         raw(static_cast<std::uint32_t>(kHeaderBytes + body.size())) + raw(ticket) + body;
}

FakePlugin::FakePlugin(const std::string& socket, std::uint16_t protocol)
    : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, socket.c_str(), sizeof(name.sun_path) - 1);
  EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  EXPECT_TRUE(readable(socket_, 5000)) << "no HELLO";
  Result<protocol::Packet> packet = protocol::receive_packet(socket_.get());
  if (!packet.ok()) return;  // the socket was closed
  const std::string bytes(reinterpret_cast<const char*>(packet->bytes.data()),
                          packet->bytes.size());
  if (read<std::uint16_t>(bytes, 0) == static_cast<std::uint16_t>(Kind::kRefused)) {
    refusal_ = text_at(bytes, kHeaderBytes);
    return;
  }
  const Fd region = packet->fds.empty() ? Fd() : std::move(packet->fds.front());
  key_bytes_ = read<std::uint32_t>(bytes, kHeaderBytes + 16);
  const std::string prefix = text_at(bytes, kHeaderBytes + 32);
  url_ = text_at(bytes, kHeaderBytes + 34 + prefix.size());
  Result<Mapping> mapping = Mapping::map_shared(
      region, read<std::uint64_t>(bytes, kHeaderBytes + 8), PROT_READ | PROT_WRITE, "region");
  EXPECT_TRUE(mapping.ok());
  if (mapping.ok()) region_ = *std::move(mapping);
  if (protocol != 0)
    send(packet_of(Kind::kReady, 0, 0,
                   raw(protocol) + raw(std::uint16_t{0}) + raw(std::uint32_t{0}) + text("fake") +
                       text("1.2")));
}

Asked FakePlugin::receive() {
  Asked asked;
  std::string bytes(kMostPacketBytes, '\0');
  EXPECT_TRUE(readable(socket_, 5000)) << "no call";
  const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  EXPECT_GE(got, static_cast<ssize_t>(kHeaderBytes)) << "the connection has ended";
  if (got < static_cast<ssize_t>(kHeaderBytes)) return asked;
  bytes.resize(static_cast<std::size_t>(got));
  asked.kind = static_cast<Kind>(read<std::uint16_t>(bytes, 0));
  asked.ticket = read<std::uint64_t>(bytes, 8);
  const std::size_t count = read<std::uint16_t>(bytes, 2);
  EXPECT_EQ(read<std::uint32_t>(bytes, 4), bytes.size());
  std::size_t at = kHeaderBytes;
  for (std::size_t i = 0; i < count; ++i) {
    AskedEntry entry;
    if (asked.kind != Kind::kExist) entry.ticket = read<std::uint64_t>(bytes, at), at += 8;
    if (asked.kind == Kind::kPut || asked.kind == Kind::kGet) {
      entry.offset = read<std::uint64_t>(bytes, at);
      entry.bytes = read<std::uint64_t>(bytes, at + 8);
      at += 16;
    }
    entry.key = bytes.substr(at, key_bytes_);
    at += key_bytes_;
    asked.kind == Kind::kExist ? asked.keys.push_back(entry.key) : asked.entries.push_back(entry);
  }
  if (count == 0) asked.text = text_at(bytes, at);
  return asked;
}

bool FakePlugin::quiet() const {
  return !readable(socket_, 50);
}

bool FakePlugin::ended() const {
  char byte = 0;
  while (readable(socket_, 5000))
    if (::recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_TRUNC) <= 0) return true;
  return false;
}

void FakePlugin::send(const std::string& packet) const {
  ::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
}

void FakePlugin::send_with_descriptor(const std::string& packet) const {
  const int fd = socket_.get();
  EXPECT_TRUE(
      protocol::send_packet(socket_.get(), std::as_bytes(std::span(packet)), {&fd, 1}).ok());
}

void FakePlugin::done(std::uint64_t ticket, Outcome outcome, std::uint64_t value) const {
  send(packet_of(
      Kind::kDone, 1, 0,
      raw(ticket) + raw(value) + raw(static_cast<std::uint32_t>(outcome)) + raw(std::uint32_t{0})));
}

void FakePlugin::found(std::uint64_t ticket, const std::vector<bool>& there) const {
  std::string body = raw(std::uint64_t{0});
  for (const bool one : there) body += static_cast<char>(one);
  send(packet_of(Kind::kFound, static_cast<std::uint16_t>(there.size()), ticket, body));
}

void FakePlugin::state(bool puts, bool gets, const std::string& reason) const {
  send(packet_of(Kind::kState, 0, 0,
                 raw(static_cast<std::uint8_t>(puts)) + raw(static_cast<std::uint8_t>(gets)) +
                     raw(std::uint16_t{2}) + raw(std::uint16_t{1}) + raw(std::uint16_t{0}) +
                     text(reason)));
}

void FakePlugin::serve() {
  const Asked asked = receive();
  for (const AskedEntry& entry : asked.entries) {
    const std::span<std::byte> bytes = at(entry.offset, entry.bytes);
    const auto found = objects.find(entry.key);
    const bool there = found != objects.end();
    if (asked.kind == Kind::kPut && there && !replaces) {
      done(entry.ticket, Outcome::kExists);
    } else if (asked.kind == Kind::kPut) {
      objects[entry.key].assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      done(entry.ticket);
    } else if (asked.kind == Kind::kGet && there) {
      std::memcpy(bytes.data(), found->second.data(), std::min(bytes.size(), found->second.size()));
      done(entry.ticket, Outcome::kOk, found->second.size());
    } else if (asked.kind == Kind::kRemove && there) {
      objects.erase(found);
      done(entry.ticket);
    } else {
      done(entry.ticket, Outcome::kNotFound);
    }
  }
  std::vector<bool> there;
  for (const std::string& key : asked.keys) there.push_back(objects.contains(key));
  if (asked.kind == Kind::kExist) found(asked.ticket, there);
  if (asked.kind != Kind::kClear) return;
  const std::size_t gone = std::erase_if(
      objects, [&](const auto& object) { return object.first.starts_with(asked.text); });
  done(asked.ticket, Outcome::kOk, gone);
}

}  // namespace larder::plugin::testing_support
