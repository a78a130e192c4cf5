// PluginLink: the socket at which larderd listens, and the one connected plug-in with its region.
// Owned by the thread of the tier.
//
// A life is one connection with one region. A life ends with the socket, with a fault of the
// plug-in, or by end_life(). The bytes of the region are gone then, whatever the plug-in still does.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/base/clock.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/plugin/options.h"
#include "sidecar/tiers/plugin/region.h"
#include "sidecar/tiers/plugin/wire.h"

namespace larder::plugin {

class PluginLink {
 public:
  // All arguments outlive this object.
  PluginLink(const PluginOptions& options, const base::Clock& clock, const net::Poller& poller);
  ~PluginLink();
  PluginLink(const PluginLink&) = delete;
  PluginLink& operator=(const PluginLink&) = delete;

  // Listens. Errors name backend.plugin_socket.
  Status open();
  // Accepts, refuses a second plug-in, and checks the time of READY.
  void turn();
  // The next packet of the plug-in after READY; empty: none now. A fault of the plug-in ends the
  // life.
  std::optional<Packet> receive();
  // The caller bounds the open calls, and so the packets that wait here.
  void send(std::string packet);
  void flush();
  void end_life(const Status& why);

  // The plug-in has said READY.
  bool ready() const { return ready_.has_value(); }
  // Counts the lives; a caller that sees another number has lost all open calls.
  std::uint64_t life() const { return life_; }
  // Packets may wait that receive() has not taken.
  bool may_receive() const { return socket_.valid() && readable_; }
  // REQUIRES: ready().
  BounceRegion& region() { return *region_; }
  // The reason without a plug-in, or why the last life ended.
  const Status& why() const { return why_; }
  // "NAME VERSION" of the connected plug-in; empty without one.
  std::string plugin() const { return ready_ ? ready_->name + " " + ready_->version : ""; }
  std::uint64_t next_ns() const { return socket_.valid() && !ready_ ? ready_by_ns_ : UINT64_MAX; }

 private:
  void accept_one(Fd socket);
  Status admissible(const Fd& socket) const;
  Status greet(Fd socket);
  void refuse(const Fd& socket, const Status& why) const;
  std::optional<std::string> read_packet();
  Status take_ready(Ready ready);

  const PluginOptions& options_;
  const base::Clock& clock_;
  const net::Poller& poller_;
  Fd listener_, socket_;
  bool acceptable_ = false, readable_ = false;  // set by the poller
  bool blocked_ = false;                        // the socket takes no packet now
  std::optional<BounceRegion> region_;
  std::optional<Ready> ready_;
  std::deque<std::string> packets_;  // to send
  std::string buffer_;               // of one packet
  std::uint64_t life_ = 0, ready_by_ns_ = 0;
  Status why_;
};

}  // namespace larder::plugin
