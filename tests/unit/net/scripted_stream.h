// A Stream in the hands of a test: the server's bytes are put in, the sent bytes are kept. Moves at
// most a given number of bytes a call.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "sidecar/net/stream.h"

namespace larder::net::testing_support {

struct Wire {
  std::string to_us, from_us;
  std::size_t receive_at_most = SIZE_MAX, send_at_most = SIZE_MAX;  // in one call
  // once all of to_us has been received
  bool closed = false;
  bool deaf = false;  // no byte can be sent any more
  // Not 0: sends like TLS. Given bytes are made into records of this size; an unsent record is
  // kept, and goes first, unchanged, before later bytes.
  std::size_t record_bytes = 0;
  bool blocked = false;
};

class ScriptedStream final : public Stream {
 public:
  explicit ScriptedStream(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  int fd() const override { return -1; }
  Result<bool> establish() override { return true; }
  Moved receive(std::span<std::byte> first, std::span<std::byte> second) override {
    Moved moved;
    std::size_t left = wire_->receive_at_most;
    for (const std::span<std::byte>& into : {first, second}) {
      const std::size_t bytes = std::min({into.size(), wire_->to_us.size(), left});
      if (bytes == 0) continue;
      std::memcpy(into.data(), wire_->to_us.data(), bytes);
      wire_->to_us.erase(0, bytes);
      moved.bytes += bytes;
      left -= bytes;
    }
    if (moved.bytes == 0 && wire_->closed) moved.status = {Code::kUnavailable, "closed"};
    return moved;
  }
  Moved send(std::span<const std::span<const std::byte>> parts) override {
    Moved moved;
    if (wire_->deaf) return {0, {Code::kUnavailable, "deaf"}};
    if (wire_->record_bytes != 0 || !record_.empty()) return send_records(parts);
    for (const std::span<const std::byte>& part : parts) {
      const std::size_t bytes = std::min(part.size(), wire_->send_at_most - moved.bytes);
      wire_->from_us.append(reinterpret_cast<const char*>(part.data()), bytes);
      moved.bytes += bytes;
    }
    return moved;
  }
  std::size_t held() const override { return record_.size(); }
  bool wants_write() const override { return false; }

 private:
  Moved send_records(std::span<const std::span<const std::byte>> parts) {
    Moved moved;
    std::string all;
    for (const std::span<const std::byte>& part : parts)
      all.append(reinterpret_cast<const char*>(part.data()), part.size());
    while (moved.bytes < all.size()) {
      if (record_.empty())
        record_ = all.substr(moved.bytes, std::max<std::size_t>(wire_->record_bytes, 1));
      if (wire_->blocked) return moved;
      wire_->from_us += record_;
      moved.bytes += record_.size();
      record_.clear();
    }
    return moved;
  }

  std::string record_;
  std::shared_ptr<Wire> wire_;  // shared with the test
};

}  // namespace larder::net::testing_support
