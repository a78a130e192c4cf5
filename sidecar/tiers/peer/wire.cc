#include "sidecar/tiers/peer/wire.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <utility>

namespace larder::peer {
namespace {

// A Redis answers HELLO too: this word in the reply tells a larderd from other RESP servers.
constexpr std::string_view kName = "larder";

Status wrong(const char* what) {
  return {Code::kInvalidArgument, what};
}

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Numbers are little-endian, like the machines of the tier.
template <typename Number>
void put(std::string& out, Number number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  out.append(bytes, sizeof(number));
}

template <typename Number>
Number take(std::string_view& bytes) {
  Number number;
  // memcpy, because the numbers of a string have any alignment. The caller has checked the length.
  std::memcpy(&number, bytes.data(), sizeof(number));
  bytes.remove_prefix(sizeof(number));
  return number;
}

std::string encode_keys(std::span<const tiers::ChunkKey> keys) {
  std::string bytes;
  bytes.reserve(keys.size() * kKeyBytes);
  for (const tiers::ChunkKey& key : keys) {
    put(bytes, key.hash.lo);
    put(bytes, key.hash.hi);
    put(bytes, key.shard);
    put(bytes, key.group);
  }
  return bytes;
}

Status parse_keys(std::string_view name, std::string_view bytes,
                  std::vector<tiers::ChunkKey>& keys) {
  const std::optional<protocol::NamespaceId> id = protocol::NamespaceId::from_hex(name);
  if (!id) return wrong("a namespace is 32 hex digits");
  // The bound is also the bound of a peer's holds, so one LOOK can be held in full.
  if (bytes.empty() || bytes.size() % kKeyBytes != 0 || bytes.size() / kKeyBytes > kMostKeys)
    return wrong("keys are 1 to 1024 times 20 bytes");
  keys.reserve(bytes.size() / kKeyBytes);
  while (!bytes.empty()) {
    tiers::ChunkKey key{*id, {}, 0, 0};
    key.hash.lo = take<std::uint64_t>(bytes);
    key.hash.hi = take<std::uint64_t>(bytes);
    key.shard = take<std::uint16_t>(bytes);
    key.group = take<std::uint16_t>(bytes);
    keys.push_back(key);
  }
  return {};
}

bool is_name(std::string_view text) {
  // Names of peers appear in logs and in the status. Printable ASCII without spaces cannot forge a
  // log line.
  return !text.empty() && text.size() <= kMostName &&
         std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

using Words = std::vector<net::Reply>;

Result<Request> parse_hello(const Words& words) {
  Request request;
  request.kind = Request::Kind::kHello;
  if (words.size() != 6 || words[1].text != kName)
    return wrong("HELLO larder PROTOCOL POOL INSTANCE EPOCH");
  request.other.pool = words[3].text;
  request.other.id = words[4].text;
  if (!parse_number(words[2].text, request.protocol) ||
      !parse_number(words[5].text, request.other.epoch) || !is_name(request.other.pool) ||
      !is_name(request.other.id))
    return wrong("HELLO larder PROTOCOL POOL INSTANCE EPOCH");
  return request;
}

Result<Request> parse_look(const Words& words) {
  Request request;
  request.kind = Request::Kind::kLook;
  if (words.size() != 4 || !parse_number(words[2].text, request.hold_ms) ||
      request.hold_ms > kMostHoldMs)
    return wrong("LOOK NAMESPACE HOLD_MS KEYS, HOLD_MS 0 to 2000");
  if (Status status = parse_keys(words[1].text, words[3].text, request.keys); !status.ok())
    return status;
  return request;
}

Result<Request> parse_done(const Words& words) {
  Request request;
  request.kind = Request::Kind::kDone;
  if (words.size() != 3) return wrong("DONE NAMESPACE KEYS");
  if (Status status = parse_keys(words[1].text, words[2].text, request.keys); !status.ok())
    return status;
  return request;
}

Result<Request> parse_get(const Words& words) {
  Request request;
  request.kind = Request::Kind::kGet;
  if (words.size() != 6 || words[2].text.size() != kKeyBytes)
    return wrong("GET NAMESPACE KEY GENERATION OFFSET LENGTH");
  if (Status status = parse_keys(words[1].text, words[2].text, request.keys); !status.ok())
    return status;
  if (!parse_number(words[3].text, request.generation) ||
      !parse_number(words[4].text, request.offset) ||
      !parse_number(words[5].text, request.length) || request.length == 0 ||
      // A part is one reply in the queue of a connection. The bound keeps a queue within
      // kMostReplyBytes and one part.
      request.length > kMostPartBytes)
    return wrong("GET NAMESPACE KEY GENERATION OFFSET LENGTH, LENGTH 1 to 4194304");
  return request;
}

std::string format(std::span<const std::string_view> words) {
  return net::format_command(words);
}

}  // namespace

Result<Request> parse_request(const net::Reply& words) {
  if (words.kind != net::Reply::Kind::kArray || words.elements.empty())
    return wrong("a request is an array of strings");
  for (const net::Reply& word : words.elements)
    if (word.kind != net::Reply::Kind::kBulk) return wrong("a request is an array of strings");
  const std::string& name = words.elements.front().text;
  if (name == "LOOK") return parse_look(words.elements);
  if (name == "GET") return parse_get(words.elements);
  if (name == "DONE") return parse_done(words.elements);
  if (name == "HELLO") return parse_hello(words.elements);
  if (name == "PING" && words.elements.size() == 1) return Request();
  return Status(Code::kUnsupported, "unknown request; known are PING, HELLO, LOOK, GET, DONE");
}

std::optional<std::uint32_t> common_protocol(std::uint32_t newest) {
  return newest < kOldestProtocol ? std::nullopt : std::optional(std::min(newest, kProtocol));
}

std::string format_ping() {
  return format(std::array<std::string_view, 1>{"PING"});
}

std::string format_hello(const Instance& self) {
  const std::string protocol = std::to_string(kProtocol), epoch = std::to_string(self.epoch);
  return format(
      std::array<std::string_view, 6>{"HELLO", kName, protocol, self.pool, self.id, epoch});
}

std::string format_look(std::span<const tiers::ChunkKey> keys, std::uint32_t hold_ms) {
  const std::string id = keys.front().namespace_id.to_hex(), hold = std::to_string(hold_ms),
                    bytes = encode_keys(keys);
  return format(std::array<std::string_view, 4>{"LOOK", id, hold, bytes});
}

std::string format_done(std::span<const tiers::ChunkKey> keys) {
  const std::string id = keys.front().namespace_id.to_hex(), bytes = encode_keys(keys);
  return format(std::array<std::string_view, 3>{"DONE", id, bytes});
}

std::string format_get(const tiers::ChunkKey& key, std::uint64_t generation, std::uint64_t offset,
                       std::uint64_t length) {
  const std::string id = key.namespace_id.to_hex(), bytes = encode_keys({&key, 1});
  const std::string numbers[] = {std::to_string(generation), std::to_string(offset),
                                 std::to_string(length)};
  return format(
      std::array<std::string_view, 6>{"GET", id, bytes, numbers[0], numbers[1], numbers[2]});
}

std::string hello_reply(const Instance& self, std::uint32_t protocol) {
  const std::string version = std::to_string(protocol), epoch = std::to_string(self.epoch);
  return format(std::array<std::string_view, 5>{kName, version, self.pool, self.id, epoch});
}

std::string look_reply(std::span<const std::optional<tiers::ChunkFacts>> chunks) {
  std::string map((chunks.size() + 7) / 8, '\0'), sizes, facts;
  // Chunks of a namespace have few sizes, often one. Each size appears once, and a chunk has its
  // number: 18 bytes a chunk in place of 32.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint16_t> numbers;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!chunks[i]) continue;
    map[i / 8] = static_cast<char>(static_cast<unsigned char>(map[i / 8]) | 1U << i % 8);
    const auto [number, anew] =
        numbers.try_emplace({chunks[i]->payload_bytes, chunks[i]->piece_bytes},
                            static_cast<std::uint16_t>(numbers.size()));
    if (anew) {
      put(sizes, chunks[i]->payload_bytes);
      put(sizes, chunks[i]->piece_bytes);
    }
    put(facts, number->second);
    put(facts, chunks[i]->generation);
    put(facts, chunks[i]->root);
  }
  put(map, static_cast<std::uint16_t>(numbers.size()));
  const std::string bytes = map + sizes + facts;
  return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
}

std::string error_reply(std::string_view text) {
  return "-" + std::string(text) + "\r\n";
}

Result<Instance> parse_hello_reply(const net::Reply& reply) {
  if (reply.kind == net::Reply::Kind::kError) {
    // Only known words of a peer are shown.
    if (reply.text.starts_with("WRONGPOOL"))
      return Status(Code::kFailedPrecondition, "it is of another pool (WRONGPOOL)");
    if (reply.text.starts_with("NOPROTO"))
      return Status(Code::kFailedPrecondition,
                    "it speaks another version of the protocol (NOPROTO)");
    return Status(Code::kUnavailable, "it refuses HELLO");
  }
  const Words& words = reply.elements;
  Instance other;
  std::uint32_t protocol = 0;
  // The reply of a program that is no larderd must fail here, and none of its text is shown: the
  // text would reach the log.
  const bool whole =
      reply.kind == net::Reply::Kind::kArray && words.size() == 5 &&
      std::ranges::all_of(
          words, [](const net::Reply& word) { return word.kind == net::Reply::Kind::kBulk; }) &&
      words[0].text == kName && parse_number(words[1].text, protocol) && is_name(words[2].text) &&
      is_name(words[3].text) && parse_number(words[4].text, other.epoch);
  if (!whole) return Status(Code::kDataLoss, "it is no larderd");
  if (common_protocol(protocol) != protocol)
    return Status(Code::kFailedPrecondition, "it speaks another version of the protocol");
  other.pool = words[2].text;
  other.id = words[3].text;
  return other;
}

Result<std::vector<std::optional<tiers::ChunkFacts>>> parse_look_reply(std::string_view bulk,
                                                                       std::size_t keys) {
  const Status too_short(Code::kDataLoss, "a reply to LOOK that is too short");
  const std::size_t map_bytes = (keys + 7) / 8;
  if (bulk.size() < map_bytes + sizeof(std::uint16_t)) return too_short;
  const std::string_view map = bulk.substr(0, map_bytes);
  bulk.remove_prefix(map_bytes);
  const std::size_t size_count = take<std::uint16_t>(bulk);
  if (size_count > keys || bulk.size() < size_count * kSizeBytes) return too_short;
  std::vector<tiers::ChunkFacts> sizes(size_count);
  for (tiers::ChunkFacts& size : sizes) {
    size.payload_bytes = take<std::uint64_t>(bulk);
    size.piece_bytes = take<std::uint64_t>(bulk);
    // Checked once for each size, before any sum of sizes: a huge number from a peer must not
    // overflow a budget.
    if (!tiers::plausible(size)) return Status(Code::kDataLoss, "a chunk of an impossible size");
  }
  std::vector<std::optional<tiers::ChunkFacts>> chunks(keys);
  for (std::size_t i = 0; i < keys; ++i) {
    if ((static_cast<unsigned char>(map[i / 8]) >> i % 8 & 1U) == 0) continue;
    if (bulk.size() < kFactsBytes) return too_short;
    const std::size_t number = take<std::uint16_t>(bulk);
    if (number >= size_count) return Status(Code::kDataLoss, "a chunk without a size");
    tiers::ChunkFacts facts = sizes[number];
    facts.generation = take<std::uint64_t>(bulk);
    facts.root = take<std::uint64_t>(bulk);
    chunks[i] = facts;
  }
  // Bytes left over mean that both sides count differently. A guess could give a chunk the root of
  // another.
  if (!bulk.empty()) return Status(Code::kDataLoss, "a reply to LOOK that is too long");
  return chunks;
}

}  // namespace larder::peer
