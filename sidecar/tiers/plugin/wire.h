// The messages between larderd and a plug-in (docs/design/plugin.md). The only writer and reader on
// the side of larderd. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shim/base/status.h"

namespace larder::plugin {

inline constexpr std::uint16_t kProtocol = 1;
inline constexpr std::size_t kMostPacketBytes = 256 << 10;
inline constexpr std::size_t kMostEntries = 256;  // of PUT, GET, REMOVE and DONE
inline constexpr std::size_t kMostKeys = 1024;    // of EXIST and FOUND
inline constexpr std::size_t kHeaderBytes = 16;

enum class Kind : std::uint16_t {
  kHello = 1,
  kRefused = 2,
  kPut = 3,
  kGet = 4,
  kExist = 5,
  kRemove = 6,
  kClear = 7,
  kReady = 16,
  kDone = 17,
  kFound = 18,
  kState = 19,
};

// The plug-in's word about a call. An unknown number counts as kFailed.
enum class Outcome : std::uint32_t {
  kOk = 0,
  kNotFound = 1,
  kExists = 2,
  kFull = 3,
  kUnavailable = 4,
  kTooLarge = 5,
  kFailed = 6,
};

struct Hello {
  std::uint64_t region_bytes = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t patience_ms = 0;
  std::string prefix, url;
};

// An entry of PUT, GET or REMOVE; REMOVE has neither offset nor bytes.
struct Entry {
  std::uint64_t ticket = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // GET: the room
  std::string key;
};

// REQUIRES: counts within the limits, all keys of one length.
std::string encode_hello(const Hello& hello);
std::string encode_refused(std::string_view reason);
std::string encode_entries(Kind kind, std::span<const Entry> entries);
std::string encode_exist(std::uint64_t ticket, std::span<const std::string> keys);
std::string encode_clear(std::uint64_t ticket, std::string_view prefix);

struct Ready {
  std::uint16_t protocol = 0;
  std::string name, version;
};
struct Done {
  std::uint64_t ticket = 0;
  std::uint64_t value = 0;
  Outcome outcome = Outcome::kFailed;
};
struct Found {
  std::uint64_t ticket = 0;
  Outcome outcome = Outcome::kFailed;
  std::vector<bool> there;
};
struct State {
  bool takes_puts = true, takes_gets = true;
  std::uint16_t servers = 0, reachable = 0;
  std::string reason;
};
using Packet = std::variant<Ready, std::vector<Done>, Found, State>;

// Reads a packet of the plug-in. Texts come out clean and cut to their limits. An error names the
// fault of the plug-in, as half a sentence.
Result<Packet> decode(std::string_view packet);

}  // namespace larder::plugin
