// The KV pages that an engine has registered, by group.
//
// Thread-safe, except begin() and add(), which one thread calls at a time. A group is read only
// after add() has ended. A group without layers (a stage of a pipeline may have one) has no pages.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "shim/base/status.h"
#include "shim/client/layout.h"

namespace larder::client {

class RegisteredPages {
 public:
  // `spec` outlives the object.
  explicit RegisteredPages(const NamespaceSpec& spec) : spec_(spec) {}

  // Call once, when the spec is complete.
  void begin();
  // Whether add() may take these layers. kFailedPrecondition: the group has pages already.
  // kInvalidArgument: no such group, or other layers than the spec's.
  Status fits(std::uint32_t group, const GroupPages& layers) const;
  // REQUIRES: fits().
  void add(std::uint32_t group, GroupPages layers);

  // Whether some group with layers has its pages; whether all have.
  bool any() const;
  bool complete() const;
  const std::vector<GroupPages>& by_group() const { return pages_; }
  // Whether a transfer can be made. `blocks_left_out`: pages may be kNoPage. kFailedPrecondition:
  // the group has no pages yet. REQUIRES: the group exists.
  Status check(const Transfer& transfer, bool blocks_left_out) const;

 private:
  bool has(std::uint32_t group) const { return registered_[group].load(std::memory_order_acquire); }

  const NamespaceSpec& spec_;
  std::vector<GroupPages> pages_;
  std::vector<std::uint64_t> page_counts_;  // pages that every layer has
  std::vector<std::atomic<bool>> registered_;
};

}  // namespace larder::client
