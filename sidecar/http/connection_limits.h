// Who goes where clients of one standing are more than their places. Pure but for ending them; owned by the endpoint's thread.
//
// First of those whose address has the most connections of that standing, so that whoever floods crowds out himself; among
// them who is owed least: who waits for no answer, of strangers who has said least and is here longest, of those who have earned
// their place who has been idle longest.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sidecar/http/connection.h"

namespace larder::http {

using Connections = std::vector<std::unique_ptr<Connection>>;

std::size_t count_of(const Connections& connections, ConnectionClass standing);

// Ends as many as are too many, and returns how many.
std::size_t close_crowding_client(const Connections& connections, ConnectionClass standing, std::size_t places);

}  // namespace larder::http
