// A server of strings behind a Unix socket, or behind a port for the node of a Cluster or a
// Sentinel, whose every byte is in the hands of a test: the answers, their length and their speed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shim/base/fd.h"

namespace larder::remote::testing_support {

class FakeServer {
 public:
  using Words = std::vector<std::string>;
  // Bytes to send in place of the honest answer; null: the honest answer; "": neither this command
  // nor later ones on its connection are ever answered, or each later answer would be taken for the
  // one before. Called by one thread a connection.
  using Hook = std::function<std::optional<std::string>(const Words& words)>;

  enum class Kind { kStandalone, kCluster, kSentinel };  // but for the first behind a port
  explicit FakeServer(Hook hook = {}, Kind kind = Kind::kStandalone);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string socket() const { return directory_ + "/fake.sock"; }
  std::uint16_t port() const { return port_; }
  // The honest answer to CLUSTER SLOTS: these share all slots.
  static std::string slots(const std::vector<std::uint16_t>& ports);
  // No thread is in the former hook after the return, so a hook may not call this.
  void set_hook(Hook hook);
  void hang_up();                   // on everybody
  std::vector<std::string> keys();  // except those of probes
  // The key of a part of that record's chunk; empty: there is no part.
  std::string part_of(const std::string& record_key, unsigned number = 0);
  std::string value(const std::string& key);
  void erase(const std::string& key);  // as an eviction does

  std::atomic<bool> mute = false;        // takes commands, sends no answer
  std::atomic<bool> holds = false;       // takes commands, and sends the answers after the release
  std::atomic<unsigned> trickle_ms = 0;  // not 0: so many bytes in so many milliseconds
  std::atomic<unsigned> trickle_bytes = 1;
  std::atomic<bool> sips = false;         // reads no faster than its answers then
  std::atomic<unsigned> connections = 0;  // accepted so far
  std::atomic<unsigned> unlinked = 0;     // keys

 private:
  struct Hooked {
    Hook hook;
    unsigned callers = 0;  // threads inside; under the mutex
  };
  void listen_at_path();
  void listen_at_port();
  void accept_all();
  void serve(int fd);
  bool has_more_while_held(int fd);
  std::string answer(const Words& words);
  std::string honest(const Words& words);
  bool send(int fd, const std::string& bytes);

  const Kind kind_;
  std::string directory_;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> ending_ = false;
  std::mutex mutex_;
  std::shared_ptr<Hooked> hooked_;  // with the threads still inside
  std::condition_variable nobody_in_it_;
  std::map<std::string, std::string> values_;
  std::vector<Fd> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// A hook for the life of its captures: the server may live longer, and answers until its own end.
class HookScope {
 public:
  HookScope(FakeServer& server, FakeServer::Hook hook) : server_(server) {
    server_.set_hook(std::move(hook));
  }
  ~HookScope() { server_.set_hook({}); }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  FakeServer& server_;
};

}  // namespace larder::remote::testing_support
