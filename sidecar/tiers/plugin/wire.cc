#include "sidecar/tiers/plugin/wire.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <optional>

#include "shim/base/utf8.h"
#include "sidecar/tiers/plugin/record.h"

namespace larder::plugin {
namespace {

constexpr std::size_t kMostNameBytes = 64, kMostReasonBytes = 256;

// Appends the fields of one packet. end() writes the size into the header.
class Writer {
 public:
  Writer(Kind kind, std::size_t count, std::uint64_t ticket) {
    put(static_cast<std::uint16_t>(kind));
    put(static_cast<std::uint16_t>(count));
    put(std::uint32_t{0});
    put(ticket);
  }
  template <std::unsigned_integral T>
  void put(T value) {
    for (std::size_t i = 0; i < sizeof(value); ++i) {
      bytes_ += static_cast<char>(value & 0xff);
      value = static_cast<T>(std::uint64_t{value} >> 8);
    }
  }
  void put_bytes(std::string_view text) { bytes_ += text; }
  void put_text(std::string_view text) {
    put(static_cast<std::uint16_t>(text.size()));
    bytes_ += text;
  }
  std::string end() {
    for (std::size_t i = 0; i < 4; ++i) bytes_[4 + i] = static_cast<char>(bytes_.size() >> (8 * i));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// Reads fields in order. After the first read beyond the end all reads give 0, and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <std::unsigned_integral T>
  T get() {
    if (rest_.size() < sizeof(T)) return fail(), T{0};
    std::uint64_t value = 0;
    for (std::size_t i = sizeof(T); i-- > 0;)
      value = value << 8 | static_cast<std::uint8_t>(rest_[i]);
    rest_.remove_prefix(sizeof(T));
    return static_cast<T>(value);
  }
  std::string_view get_bytes(std::size_t count) {
    if (rest_.size() < count) return fail(), std::string_view();
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  std::string get_text(std::size_t most_bytes) {
    const std::size_t bytes = get<std::uint16_t>();
    if (bytes > most_bytes) return fail(), std::string();
    return clean_text(get_bytes(bytes), most_bytes);
  }
  bool ok() const { return ok_; }
  // All bytes were read.
  bool ended() const { return ok_ && rest_.empty(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  std::string_view rest_;
  bool ok_ = true;
};

struct Header {
  std::uint16_t kind = 0, count = 0;
  std::uint32_t bytes = 0;
  std::uint64_t ticket = 0;
};

Status wrong(const std::string& what) {
  return {Code::kInvalidArgument, "sent " + what};
}

Outcome outcome_of(std::uint32_t number) {
  return number <= static_cast<std::uint32_t>(Outcome::kFailed) ? static_cast<Outcome>(number)
                                                                : Outcome::kFailed;
}

Result<Packet> decode_ready(Reader& reader) {
  Ready ready;
  ready.protocol = reader.get<std::uint16_t>();
  // Reserved fields must be zero, or a later version could not give them a meaning.
  const bool zero = reader.get<std::uint16_t>() == 0 && reader.get<std::uint32_t>() == 0;
  ready.name = reader.get_text(kMostNameBytes);
  ready.version = reader.get_text(kMostNameBytes);
  if (!reader.ended() || !zero) return wrong("a malformed READY");
  return Packet(std::move(ready));
}

Result<Packet> decode_done(const Header& header, Reader& reader) {
  if (header.count == 0 || header.count > kMostEntries || header.ticket != 0)
    return wrong("a DONE of " + std::to_string(header.count) + " entries (1 to 256 are allowed)");
  std::vector<Done> all(header.count);
  for (Done& done : all) {
    done.ticket = reader.get<std::uint64_t>();
    done.value = reader.get<std::uint64_t>();
    done.outcome = outcome_of(reader.get<std::uint32_t>());
    reader.get<std::uint32_t>();
  }
  if (!reader.ended()) return wrong("a DONE of another size than its count");
  return Packet(std::move(all));
}

Result<Packet> decode_found(const Header& header, Reader& reader) {
  if (header.count == 0 || header.count > kMostKeys)
    return wrong("a FOUND of " + std::to_string(header.count) + " keys (1 to 1024 are allowed)");
  Found found;
  found.ticket = header.ticket;
  found.outcome = outcome_of(reader.get<std::uint32_t>());
  reader.get<std::uint32_t>();
  for (const char byte : reader.get_bytes(header.count)) {
    if (byte != 0 && byte != 1) return wrong("a FOUND with a byte other than 0 and 1");
    found.there.push_back(byte == 1);
  }
  if (!reader.ended()) return wrong("a FOUND of another size than its count");
  return Packet(std::move(found));
}

Result<Packet> decode_state(Reader& reader) {
  State state;
  const std::uint8_t puts = reader.get<std::uint8_t>(), gets = reader.get<std::uint8_t>();
  state.takes_puts = puts == 1;
  state.takes_gets = gets == 1;
  state.servers = reader.get<std::uint16_t>();
  state.reachable = reader.get<std::uint16_t>();
  reader.get<std::uint16_t>();
  // The text reaches logs and status: clean_text() in get_text() removes control characters.
  state.reason = reader.get_text(kMostReasonBytes);
  if (!reader.ended() || puts > 1 || gets > 1 || state.reachable > state.servers)
    return wrong("a malformed STATE");
  return Packet(std::move(state));
}

}  // namespace

std::string encode_hello(const Hello& hello) {
  Writer writer(Kind::kHello, 0, 0);
  writer.put_bytes("LPG1");
  writer.put(kProtocol);
  writer.put(std::uint16_t{0});
  writer.put(hello.region_bytes);
  writer.put(hello.key_bytes);
  writer.put(std::uint32_t{kRecordBytes});
  writer.put(hello.patience_ms);
  writer.put(std::uint32_t{0});
  writer.put_text(hello.prefix);
  writer.put_text(hello.url);
  return writer.end();
}

// Sent before the connection is closed, in place of HELLO.
std::string encode_refused(std::string_view reason) {
  Writer writer(Kind::kRefused, 0, 0);
  writer.put_text(cut_text(reason, kMostReasonBytes));
  return writer.end();
}

std::string encode_entries(Kind kind, std::span<const Entry> entries) {
  Writer writer(kind, entries.size(), 0);
  for (const Entry& entry : entries) {
    writer.put(entry.ticket);
    if (kind != Kind::kRemove) {
      writer.put(entry.offset);
      writer.put(entry.bytes);
    }
    writer.put_bytes(entry.key);
  }
  return writer.end();
}

std::string encode_exist(std::uint64_t ticket, std::span<const std::string> keys) {
  Writer writer(Kind::kExist, keys.size(), ticket);
  for (const std::string& key : keys) writer.put_bytes(key);
  return writer.end();
}

std::string encode_clear(std::uint64_t ticket, std::string_view prefix) {
  Writer writer(Kind::kClear, 0, ticket);
  writer.put_text(prefix);
  return writer.end();
}

Result<Packet> decode(std::string_view packet) {
  // Each length is checked before its use: a plug-in may be hostile, or of another release.
  Reader reader(packet);
  Header header;
  header.kind = reader.get<std::uint16_t>();
  header.count = reader.get<std::uint16_t>();
  header.bytes = reader.get<std::uint32_t>();
  header.ticket = reader.get<std::uint64_t>();
  // SEQPACKET keeps the borders of packets. The size in the header finds a truncated packet.
  if (!reader.ok() || header.bytes != packet.size())
    return wrong("a packet of " + std::to_string(packet.size()) + " bytes with the size " +
                 std::to_string(header.bytes) + " in its header");
  switch (static_cast<Kind>(header.kind)) {
    case Kind::kReady: return decode_ready(reader);
    case Kind::kDone: return decode_done(header, reader);
    case Kind::kFound: return decode_found(header, reader);
    case Kind::kState: return decode_state(reader);
    default: break;
  }
  return wrong("a packet of the unknown kind " + std::to_string(header.kind));
}

}  // namespace larder::plugin
