// ServerCommands: makes the commands of the tier and sends each to the server of its key. Owned by
// the thread of the tier.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/chunks/known_chunks.h"
#include "sidecar/tiers/remote/chunks/operation.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/backend.h"

namespace larder::remote {

// The objects that all parts of one engine share. All outlive the parts.
struct EngineServices {
  const base::Clock& clock;
  const RemoteOptions& options;
  KnownChunks& known;
  Backend& backend;
};

class ServerCommands {
 public:
  explicit ServerCommands(const EngineServices& services)
      : clock_(services.clock),
        options_(services.options),
        known_(services.known),
        backend_(services.backend) {}
  ServerCommands(const ServerCommands&) = delete;
  ServerCommands& operator=(const ServerCommands&) = delete;

  // A command of an operation, or of maintenance (`op` is null).
  Request request_of(const OpPtr& op, const std::vector<std::string_view>& words, const char* types,
                     Then then) const;
  // Sends a command to the server of its key, the second word. An error: no connection, and `then`
  // is not called.
  Status ask(Lane lane, const OpPtr& op, const std::vector<std::string_view>& words,
             const char* types, Then then);
  // Unlinks the keys, one command for each group of keys, behind the commands in flight on
  // `writers` of the write connections. Calls `then` once, maybe before this function returns, with
  // the number of removed keys, or with the first failure.
  void unlink(const std::vector<std::string>& keys, std::size_t writers, Then then);
  // Reads the value under the key of a record; of a longer value only one byte more than a record
  // has.
  Status read_record(const OpPtr& op, const tiers::ChunkKey& key, Then then);
  // Notes the first failure of the operation. False: the reply is a failure.
  static bool answered(const OpPtr& op, const Status& lost, const Reply& reply);

  // Why the chunk cannot be stored or loaded as a whole now: then no byte is moved.
  Status refusal_of(const Record& record, Lane lane) const;
  // Notes that the server has this chunk, for `left_ms` more.
  void know(const Record& record, std::uint64_t left_ms);
  // An upper bound of the rest of a record's time to live: `since` has a resolution of one second.
  std::uint64_t left_ms(const Record& record) const;

 private:
  const base::Clock& clock_;
  const RemoteOptions& options_;
  KnownChunks& known_;
  Backend& backend_;
};

}  // namespace larder::remote
