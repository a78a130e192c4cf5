#include "sidecar/loop/session_table.h"

#include "sidecar/loop/wakeups.h"

namespace larder::loop {

void SessionTable::insert(std::unique_ptr<session::Connection> connection) {
  connections_.emplace(connection->protocol.facts().number, std::move(connection));
}

session::Connection* SessionTable::find(std::uint32_t number) {
  const auto found = connections_.find(number);
  return found == connections_.end() ? nullptr : found->second.get();
}

Status SessionTable::send(session::Connection& connection, std::vector<std::byte> packet, std::span<const int> fds) {
  const bool waited = !connection.answers.empty();
  Status sent = connection.answers.send(connection.socket, std::move(packet), fds);
  if (!sent.ok() || waited || connection.answers.empty()) return sent;
  return watch_room(parts_.epoll, connection.socket, {WakeupSource::kSocket, connection.protocol.facts().number}, true);
}

Status SessionTable::flush(session::Connection& connection) {
  if (connection.answers.empty()) return {};
  Status status = connection.answers.flush(connection.socket);
  if (status.ok() && connection.answers.empty())
    status = watch_room(parts_.epoll, connection.socket, {WakeupSource::kSocket, connection.protocol.facts().number}, false);
  return status;
}

}  // namespace larder::loop
