// Chooses the connection to close when a class of connections is full. Pure except for closing;
// owned by the thread of the endpoint.
//
// The choice falls on the address with the most connections in that class, so a flood crowds out
// itself. Among the connections of that address, a connection that waits for an answer stays
// longest. Of the others, the class decides. New: the connection that sent bytes least often, then
// the oldest. Earned: the connection that is idle longest.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sidecar/http/connection.h"

namespace larder::http {

using Connections = std::vector<std::unique_ptr<Connection>>;

std::size_t count_of(const Connections& connections, ConnectionClass which);

// Closes the surplus over `places`, and returns the number of closed connections.
std::size_t close_excess_connection(const Connections& connections, ConnectionClass which,
                                    std::size_t places);

}  // namespace larder::http
