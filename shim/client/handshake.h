// The handshake: connect, HELLO, WELCOME, map and lock, ATTACHED, OPEN_NAMESPACE, NAMESPACE. For a
// client whose own namespace has no fingerprint, the handshake ends with ATTACHED; such a client
// opens namespaces later.
//
// Each answer has a deadline of kHandshakeTimeoutMs. Stateless; runs on the control thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "shim/client/attachment.h"
#include "shim/client/layout.h"

namespace larder::client {

struct HandshakeInput {
  std::string socket;
  std::string engine;
  std::uint64_t previous_token = 0;
  std::uint64_t previous_epoch = 0;
  std::vector<protocol::SlotRef> still_writing;  // grants of the earlier session
  std::shared_ptr<const Fd> wake;                // readable when `stop` was set
  // Or nullptr; gives holds and mapping to the new one if the arena is the same.
  std::shared_ptr<Attachment> earlier;
};

struct HandshakeOutput {
  std::shared_ptr<Attachment> attachment;
  std::string difference;  // to the most similar namespace; empty: equal to one, or the only one
};

// Gives up early, with kUnavailable, when `stop` is set.
Result<HandshakeOutput> shake_hands(const HandshakeInput& input, const NamespaceSpec& spec,
                                    const std::atomic<bool>& stop);

}  // namespace larder::client
