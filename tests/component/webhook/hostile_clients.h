// HostileClients: the worst attacks of a cluster's pods on the webhook's port, all at once, until
// the destructor. A client that is cut off comes back, 50 times a second at most.
//
// 500 silent connections; lines and headers that never end; bodies of 1 GiB in chunks; a byte a
// second; 400 handshakes that never end, and renegotiations; plain HTTP; bodies that are never
// finished; JSON of a million lists; reviews with unread answers.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace larder::component_test {

class HostileClients {
 public:
  struct Flood {
    int silent = 500;
    int half_hellos = 200;       // of the greatest size, and as many of a usual one
    int stopped_handshakes = 0;  // after a whole hello
    unsigned char from = 1;      // the last byte of the attackers' address; the honest ones' is 1
  };

  explicit HostileClients(std::string address) : HostileClients(std::move(address), Flood{}) {}
  HostileClients(std::string address, Flood flood);
  ~HostileClients();
  HostileClients(const HostileClients&) = delete;
  HostileClients& operator=(const HostileClients&) = delete;

  // Connections made so far: that there is an attack at all.
  std::uint64_t connections() const { return connections_; }

 private:
  void start(int count, std::function<void(const std::stop_token&)> attack);
  void hold_open(const std::stop_token& stop, int count, const std::string& first_bytes);
  void send_on(const std::stop_token& stop, const std::string& head, const std::string& piece,
               int pause_ms);
  void send_plain(const std::stop_token& stop);
  void renegotiate(const std::stop_token& stop);

  const std::string address_;
  const unsigned char from_;
  std::atomic<std::uint64_t> connections_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace larder::component_test
