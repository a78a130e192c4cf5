#include "sidecar/http/connection_limits.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace larder::http {
namespace {

// That count for a new client: hello, end of the handshake, request.
constexpr unsigned kMostTurns = 3;

// A pointer to the shared count: closing one connection lowers the rank of its neighbours.
struct Candidate {
  Connection* connection;
  std::size_t* neighbours;  // connections of the same address, this one included
};

bool counts(const Connection& connection, ConnectionClass which) {
  return connection.state() != Connection::State::kOver && connection.connection_class() == which;
}

// The sort key: the smallest closes first.
auto rank(const Candidate& candidate) {
  const Connection& one = *candidate.connection;
  const bool earned = one.connection_class() == ConnectionClass::kEarned;
  // First the address with the most connections, so a flood crowds out itself. A connection that
  // waits for an answer goes last: its work is done already.
  return std::tuple(-static_cast<std::ptrdiff_t>(*candidate.neighbours), one.busy(),
                    earned ? 0 : std::min(one.turns(), kMostTurns),
                    earned ? one.active_ms() : one.id());
}

}  // namespace

std::size_t count_of(const Connections& connections, ConnectionClass which) {
  return static_cast<std::size_t>(
      std::ranges::count_if(connections, [&](const auto& one) { return counts(*one, which); }));
}

std::size_t close_excess_connection(const Connections& connections, ConnectionClass which,
                                    std::size_t places) {
  if (count_of(connections, which) <= places) return 0;
  std::unordered_map<std::string_view, std::size_t> of_address;  // pointers to values stay valid
  std::vector<Candidate> candidates;
  for (const auto& one : connections) {
    if (!counts(*one, which)) continue;
    std::size_t& neighbours = of_address[one->peer()];
    ++neighbours;
    candidates.push_back({one.get(), &neighbours});
  }
  const std::size_t too_many = candidates.size() - places;
  // Quadratic only in the surplus, and that is mostly 1: the endpoint calls this in every round.
  for (std::size_t i = 0; i < too_many; ++i) {
    const auto least = std::ranges::min_element(candidates, {}, rank);
    least->connection->end();
    --*least->neighbours;
    *least = candidates.back();
    candidates.pop_back();
  }
  return too_many;
}

}  // namespace larder::http
