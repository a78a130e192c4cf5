// SessionTable: the live sessions of engines.
//
// Owned by the thread of the loop. All arguments of the constructor outlive this object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/loop/loop_parts.h"
#include "sidecar/session/connection.h"

namespace larder::loop {

class SessionTable {
 public:
  explicit SessionTable(LoopParts& parts) : parts_(parts) {}
  SessionTable(const SessionTable&) = delete;

  void insert(std::unique_ptr<session::Connection> connection);
  // Null if the session has ended.
  session::Connection* find(std::uint32_t number);
  std::size_t size() const { return connections_.size(); }
  // Calls `visit` for each session, by number.
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& [number, connection] : connections_) visit(static_cast<const session::Connection&>(*connection));
  }
  std::map<std::uint32_t, std::unique_ptr<session::Connection>>& connections() { return connections_; }

  // Sends the packet, or queues it until the socket has room.
  Status send(session::Connection& connection, std::vector<std::byte> packet, std::span<const int> fds = {});
  // Sends queued packets while the socket has room.
  Status flush(session::Connection& connection);

 private:
  LoopParts& parts_;
  std::map<std::uint32_t, std::unique_ptr<session::Connection>> connections_;
};

}  // namespace larder::loop
