#include "sidecar/tiers/remote/topology/slots.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace larder::remote {
namespace {

// The longest name of the DNS.
constexpr std::size_t kMostHost = 255;

// CRC16/XMODEM: polynomial 0x1021, most significant bit first.
constexpr std::array<std::uint16_t, 256> kCrc = [] {
  std::array<std::uint16_t, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    auto crc = static_cast<std::uint32_t>(i << 8);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? (crc << 1) ^ 0x1021U : crc << 1;
    table[i] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

// Whether the text has only letters, digits and other characters of names and addresses.
// The host appears in log lines and goes to the resolver, so no other character may pass.
bool host_like(std::string_view host) {
  return host.size() <= kMostHost && std::ranges::all_of(host, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == ':' || c == '-' || c == '_' || c == '%';
         });
}

std::optional<std::uint16_t> slot_number(const Reply& reply) {
  if (reply.kind != Reply::Kind::kInteger || reply.integer < 0 ||
      reply.integer >= static_cast<std::int64_t>(kSlots))
    return {};
  return static_cast<std::uint16_t>(reply.integer);
}

// A node that does not know its host sends nil or an empty text: then the host of our connection
// counts.
std::optional<Endpoint> node(const Reply& reply, const std::string& asked) {
  if (reply.elements.size() < 2 || reply.elements[1].kind != Reply::Kind::kInteger) return {};
  const std::int64_t port = reply.elements[1].integer;
  const std::string& host = reply.elements[0].text;
  if (port < 1 || port > UINT16_MAX || !host_like(host)) return {};
  return Endpoint{host.empty() ? asked : host, static_cast<std::uint16_t>(port)};
}

Endpoint parse_target(std::string_view text, const std::string& asked) {
  const Endpoint none{{}, 0};
  // The last colon: an IPv6 address has colons of its own, as in "2001:db8::1:6379".
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return none;
  const std::string_view host = text.substr(0, colon), digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0 || !host_like(host))
    return none;
  return {host.empty() ? asked : std::string(host), port};
}

}  // namespace

std::uint16_t slot_of(std::string_view key) {
  // As in the Redis Cluster specification. "123456789" has the CRC 0x31c3, which is the slot
  // 12739.
  std::uint32_t crc = 0;
  for (const char c : key)
    crc = ((crc << 8) ^ kCrc[((crc >> 8) ^ static_cast<unsigned char>(c)) & 0xffU]) & 0xffffU;
  return static_cast<std::uint16_t>(crc % kSlots);
}

std::optional<std::vector<SlotRange>> parse_slots(const Reply& reply, const std::string& asked) {
  if (reply.kind != Reply::Kind::kArray) return {};
  std::vector<SlotRange> ranges;
  for (const Reply& range : reply.elements) {
    // One malformed range makes the whole map untrustworthy: the former map stays.
    if (range.elements.size() < 3) return {};
    const std::optional<std::uint16_t> first = slot_number(range.elements[0]),
                                       last = slot_number(range.elements[1]);
    if (!first || !last || *first > *last) return {};
    // A master with an unknown name ("?") is unreachable: its slots have no master.
    const std::optional<Endpoint> master = node(range.elements[2], asked);
    if (!master) continue;
    ranges.push_back({*first, *last, *master});
    for (std::size_t i = 3; i < range.elements.size(); ++i)
      if (const std::optional<Endpoint> replica = node(range.elements[i], asked))
        ranges.back().replicas.push_back(*replica);
  }
  return ranges;
}

std::optional<Endpoint> parse_named(const Reply& reply) {
  if (reply.elements.size() != 2 || reply.elements[0].text.empty()) return {};
  const Endpoint named = parse_target(reply.elements[0].text + ":" + reply.elements[1].text, "");
  return named.port == 0 ? std::nullopt : std::optional(named);
}

Redirection parse_redirection(std::string_view error, const std::string& asked) {
  using What = Redirection::What;
  const std::string_view word = error.substr(0, error.find(' '));
  if (word == "TRYAGAIN") return {What::kAgain, {}};
  // For example "MOVED 3999 127.0.0.1:6381". The slot is ignored, because the command's own slot
  // is known.
  if (word != "MOVED" && word != "ASK") return {};
  const std::size_t last = error.rfind(' ');
  const bool three = last != std::string_view::npos && last > word.size() + 1;
  return {word == "MOVED" ? What::kMoved : What::kAsk,
          three ? parse_target(error.substr(last + 1), asked) : Endpoint{{}, 0}};
}

}  // namespace larder::remote
