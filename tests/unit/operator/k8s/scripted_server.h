// ScriptedServer: a TCP server on this machine that answers byte for byte by a test's script,
// well-formed or not.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "shim/base/fd.h"

namespace larder::k8s {

// One connection. Its calls end when the client or the server has gone.
class Peer {
 public:
  Peer(Fd socket, const std::atomic<bool>& over) : socket_(std::move(socket)), over_(over) {}
  // The next request, head and body; empty: there is no request.
  std::string request();
  // False when the client has gone.
  bool send(std::string_view bytes);
  // `send`, one piece of `size` bytes at a time.
  bool send_pieces(std::string_view bytes, std::size_t size, unsigned pause_ms = 0);
  void answer(const std::string& body, const std::string& status = "200 OK",
              const std::string& fields = "");
  void begin_chunks(const std::string& fields = "");
  void chunk(std::string_view bytes);
  // Until the client has gone.
  void await_end();
  void close() { socket_.reset(); }
  bool open() const { return socket_.valid() && !over_; }

 private:
  bool readable();

  Fd socket_;
  const std::atomic<bool>& over_;
  std::string received_;
};

class ScriptedServer {
 public:
  // Called on a thread of its own for each connection, with its number from 0; returning closes the
  // connection.
  using Script = std::function<void(Peer&, int number)>;
  explicit ScriptedServer(Script script);
  ~ScriptedServer();

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int connections() const { return connections_; }

 private:
  void run();

  const Script script_;
  Fd listener_;
  int port_ = 0;
  std::atomic<bool> over_{false};
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::vector<std::jthread> threads_;
  std::jthread acceptor_;
};

// A script that answers each request by its first line.
ScriptedServer::Script each_request(std::function<void(Peer&, const std::string& request)> answer);

// The first line, "GET /api/v1/pods HTTP/1.1".
std::string first_line(const std::string& request);

}  // namespace larder::k8s
