// Encoder and Decoder: messages to bytes and back, with every length checked.
//
// Encoder appends into a buffer of its own. Decoder copies out of a received packet and never reads
// beyond the packet: callers check their local copy, which a peer cannot change after the check.
// Every count has a limit, a bound in limits.h. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shim/base/status.h"
#include "shim/base/utf8.h"
#include "shim/protocol/messages.h"

namespace larder::protocol {

class Encoder {
 public:
  Encoder(MessageType type, std::uint32_t request) {
    append(MessageHeader{kMessageMagic, static_cast<std::uint16_t>(type), 0, 0, request});
  }

  template <typename T>
  Encoder& append(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return append_bytes(&value, sizeof(value));
  }
  template <typename T>
  Encoder& append_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return append_bytes(values.data(), values.size_bytes());
  }
  Encoder& append_text(std::string_view text) { return append_bytes(text.data(), text.size()); }

  // The finished packet. REQUIRES: at most kMaxPacketBytes, which the callers' limits ensure.
  std::span<const std::byte> packet() {
    const auto body = static_cast<std::uint32_t>(bytes_.size() - sizeof(MessageHeader));
    std::memcpy(bytes_.data() + offsetof(MessageHeader, body_bytes), &body, sizeof(body));
    return bytes_;
  }

 private:
  Encoder& append_bytes(const void* data, std::size_t size_bytes) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + size_bytes);
    if (size_bytes != 0) std::memcpy(bytes_.data() + at, data, size_bytes);
    return *this;
  }

  std::vector<std::byte> bytes_;
};

class Decoder {
 public:
  // Checks the header against the packet. The packet outlives the decoder.
  static Result<Decoder> open(std::span<const std::byte> packet) {
    Decoder decoder(packet);
    if (!decoder.read(decoder.header_))
      return Status(Code::kInvalidArgument, "message shorter than its header");
    if (decoder.header_.magic != kMessageMagic)
      return Status(Code::kInvalidArgument, "message with a wrong magic");
    if (decoder.header_.body_bytes != decoder.rest_.size())
      return Status(Code::kInvalidArgument, "message length field does not match the packet");
    return decoder;
  }

  MessageType type() const { return static_cast<MessageType>(header_.type); }
  std::uint32_t request() const { return header_.request; }

  template <typename T>
  [[nodiscard]] bool read(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return true;
  }

  // `count` records, at most `limit` of them.
  template <typename T>
  [[nodiscard]] bool read_all(std::size_t count, std::size_t limit, std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count > limit || rest_.size() / sizeof(T) < count) return false;
    values.resize(count);
    if (count != 0) std::memcpy(values.data(), rest_.data(), count * sizeof(T));
    rest_ = rest_.subspan(count * sizeof(T));
    return true;
  }

  [[nodiscard]] bool read_text(std::size_t size_bytes, std::size_t limit, std::string& text) {
    if (size_bytes > limit || rest_.size() < size_bytes) return false;
    text.assign(reinterpret_cast<const char*>(rest_.data()), size_bytes);
    rest_ = rest_.subspan(size_bytes);
    return true;
  }

 private:
  explicit Decoder(std::span<const std::byte> packet) : rest_(packet) {}

  MessageHeader header_{};
  std::span<const std::byte> rest_;
};

// A text cleaned (utf8.h) and cut to kMaxNameBytes: fit for log lines, metric labels and terminals.
inline ShortText make_short_text(std::string_view text) {
  const std::string clean = clean_text(text, kMaxNameBytes);
  ShortText value{};
  value.bytes = static_cast<std::uint32_t>(clean.size());
  clean.copy(value.text, sizeof(value.text));
  return value;
}

// The same rules for a text from the other side. A length over the limit is cut.
inline std::string short_text(const ShortText& value) {
  return clean_text({value.text, std::min<std::size_t>(value.bytes, kMaxNameBytes)}, kMaxNameBytes);
}

}  // namespace larder::protocol
