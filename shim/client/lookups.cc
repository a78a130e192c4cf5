#include "shim/client/lookups.h"

#include <optional>

namespace larder::client {

// Nothing is found without an attachment and during a drop. A miss is the safe answer: the engine
// computes.
std::size_t Lookups::present(const Hashes& hashes) const {
  const std::shared_ptr<Attachment> attachment = readable(hashes.ns);
  return attachment ? count_present(*attachment, namespaces_.parts(hashes.ns).kept, hashes) : 0;
}

std::size_t Lookups::last(const Hashes& hashes) const {
  const std::shared_ptr<Attachment> attachment = readable(hashes.ns);
  return attachment ? last_present(*attachment, namespaces_.parts(hashes.ns).kept, hashes) : 0;
}

std::size_t Lookups::reachable(const Hashes& hashes) const {
  const std::shared_ptr<Attachment> attachment = readable(hashes.ns);
  // The residency filter spans all sessions, so the keys have the id of the namespace and not the
  // session's handle.
  const std::optional<protocol::NamespaceId> id = namespaces_.id(hashes.ns);
  return attachment && id
             ? count_reachable(*attachment, namespaces_.parts(hashes.ns).kept, hashes, *id)
             : 0;
}

std::size_t Lookups::last_reachable(const Hashes& hashes) const {
  const std::shared_ptr<Attachment> attachment = readable(hashes.ns);
  const std::optional<protocol::NamespaceId> id = namespaces_.id(hashes.ns);
  return attachment && id
             ? client::last_reachable(*attachment, namespaces_.parts(hashes.ns).kept, hashes, *id)
             : 0;
}

}  // namespace larder::client
