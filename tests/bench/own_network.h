// A network namespace of this thread's own, and of those that it makes from then on: loopback, and a TCP that is said. What a machine is
// set to is its own affair: BBR measures a round trip of 3 us on loopback and then lets so little be on its way that server and client wait
// for each other.
#pragma once

#include <string>

namespace larder::bench {

// `congestion`: TCP's congestion control; empty: the machine's own. Throws std::runtime_error where this machine does not let it: that
// takes root, and one that the machine lets everybody have (net.ipv4.tcp_allowed_congestion_control), as reno always is.
void enter_own_network(const std::string& congestion);

// That of the namespace that this thread is in.
std::string tcp_congestion();

}  // namespace larder::bench
