// The way from nothing to an open namespace: connect, HELLO, WELCOME, map and lock, ATTACHED, OPEN_NAMESPACE, NAMESPACE.
// A client whose own namespace has no fingerprint is attached behind ATTACHED; it opens further namespaces later.
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
  std::shared_ptr<Attachment> earlier;  // whose holds and arena the new one takes over where larderd has the same; or nullptr
};

struct HandshakeOutput {
  std::shared_ptr<Attachment> attachment;
  std::string difference;  // how the namespace differs from the one most like it; empty: it does not, or stands alone
};

// Gives up early, with kUnavailable, when `stop` is set.
Result<HandshakeOutput> shake_hands(const HandshakeInput& input, const NamespaceSpec& spec, const std::atomic<bool>& stop);

}  // namespace larder::client
