// A network namespace for this thread and for later children: loopback, with a chosen congestion
// control of TCP. The machine's own choice can spoil a benchmark: BBR measures a round trip of 3 us
// on loopback, and then allows so few bytes in flight that server and client wait for each other.
#pragma once

#include <string>

namespace larder::bench {

// `congestion`: TCP's congestion control; empty: the machine's own. Throws std::runtime_error if
// the machine refuses: the call needs root, and a congestion control in
// net.ipv4.tcp_allowed_congestion_control, as reno always is.
void enter_own_network(const std::string& congestion);

// The congestion control of this thread's namespace.
std::string tcp_congestion();

}  // namespace larder::bench
