// A plug-in played by the test, message by message. Every method fails the test after 5 s.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "sidecar/tiers/plugin/wire.h"

namespace larder::plugin::testing_support {

struct AskedEntry {
  std::uint64_t ticket = 0, offset = 0, bytes = 0;
  std::string key;
};

struct Asked {
  Kind kind = Kind::kRefused;
  std::uint64_t ticket = 0;
  std::vector<AskedEntry> entries;  // of PUT, GET, REMOVE
  std::vector<std::string> keys;    // of EXIST
  std::string text;                 // of CLEAR and REFUSED
};

class FakePlugin {
 public:
  // Connects and takes HELLO or REFUSED. Says READY with `protocol` unless that is 0.
  explicit FakePlugin(const std::string& socket, std::uint16_t protocol = kProtocol);

  bool refused() const { return !refusal_.empty(); }
  const std::string& refusal() const { return refusal_; }
  const std::string& url() const { return url_; }
  std::span<std::byte> at(std::uint64_t offset, std::uint64_t bytes) const {
    return {region_.data() + offset, bytes};
  }
  std::size_t region_bytes() const { return region_.size(); }

  Asked receive();
  // Nothing comes in 50 ms.
  bool quiet() const;
  // The connection has ended.
  bool ended() const;

  void send(const std::string& packet) const;
  void send_with_descriptor(const std::string& packet) const;
  void done(std::uint64_t ticket, Outcome outcome = Outcome::kOk, std::uint64_t value = 0) const;
  void found(std::uint64_t ticket, const std::vector<bool>& there) const;
  void state(bool puts, bool gets, const std::string& reason) const;

  // Answers the next packet as a well-behaved plug-in does.
  void serve();
  std::map<std::string, std::string> objects;
  bool replaces = true;  // PUT over an object

 private:
  Fd socket_;
  Mapping region_;
  std::uint32_t key_bytes_ = 0;
  std::string url_, refusal_;
};

// A packet with any header, for faults.
std::string packet_of(Kind kind, std::uint16_t count, std::uint64_t ticket,
                      const std::string& body);

}  // namespace larder::plugin::testing_support
