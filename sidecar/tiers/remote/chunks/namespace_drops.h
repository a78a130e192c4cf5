// NamespaceDrops: drops of one namespace, or of all, by SCAN and UNLINK, one step at a time. A drop
// that a server does not do is kept, and starts again once the server allows it. Owned by the
// thread of the tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/known_chunks.h"
#include "sidecar/tiers/remote/chunks/operation_table.h"
#include "sidecar/tiers/remote/chunks/server_commands.h"

namespace larder::remote {

class NamespaceDrops {
 public:
  // Drops that the servers have not done; the caller refuses others.
  static constexpr std::size_t kMost = 1024;

  struct Drop {
    OpPtr op;
    std::uint64_t serial = 0;
    std::string cursor = "0";
    std::size_t master = 0;     // the master in the scan
    std::uint64_t version = 0;  // of the masters; a change starts the drop again
    bool asked = false;         // a reply is due
    std::uint64_t step_ns = 0;  // the begin of this step
    std::uint64_t wait_ns = 0;  // after a failure; doubles
    std::string refused;        // why the server refuses
  };

  // All arguments outlive this object.
  NamespaceDrops(const EngineServices& services, ServerCommands& commands,
                 OperationTable& operations)
      : clock_(services.clock),
        options_(services.options),
        known_(services.known),
        backend_(services.backend),
        commands_(commands),
        operations_(operations) {}
  NamespaceDrops(const NamespaceDrops&) = delete;
  NamespaceDrops& operator=(const NamespaceDrops&) = delete;

  // Ends earlier operations of the namespace, and forgets its known chunks. The namespace is hidden
  // already, and shown again once the drop is done.
  void begin(const OpPtr& op);
  // The running drop of a namespace, or nullptr. Valid until the next call of another method.
  const Drop* of(const protocol::NamespaceId& id) const;
  std::size_t size() const { return drops_.size(); }

  void maintain();
  void scan_now() { next_scan_ns_ = 0; }  // a server is connected
  // The time of the next step; UINT64_MAX: a reply or a connection comes first.
  std::uint64_t next_ns(std::uint64_t now_ns) const;

 private:
  void scanned(const Status& lost, const Reply& reply);
  void drop_keys(const std::vector<std::string>& keys,
                 const std::function<void(std::uint64_t gone)>& then);
  void scan_on(const std::string& cursor);
  void drop_refused(const Reply& reply);
  void drop_failed(const Status& why);
  void drop_done();

  const base::Clock& clock_;
  const RemoteOptions& options_;
  KnownChunks& known_;
  Backend& backend_;
  ServerCommands& commands_;
  OperationTable& operations_;

  std::deque<Drop> drops_;  // not done yet; the first one is in progress
  std::uint64_t next_scan_ns_ = 0;
};

}  // namespace larder::remote
