// SessionEvents: passes the messages of larderd, and the begin and end of each session, to the
// parts of a client.
//
// All calls but close() come from the control thread, and none blocks this thread. Owned by the
// client.
#pragma once

#include <memory>
#include <vector>

#include "shim/client/control.h"
#include "shim/client/copy_pool.h"
#include "shim/client/lower_tiers.h"
#include "shim/client/namespaces.h"
#include "shim/client/page_copies.h"
#include "shim/client/registered_pages.h"
#include "shim/client/sidecar_copies.h"
#include "shim/client/stores.h"

namespace larder::client {

class SessionEvents final : public ControlListener {
 public:
  // All outlive the object.
  struct Parts {
    Namespaces& namespaces;
    const RegisteredPages& pages;
    PageCopies& copies;
    SidecarCopies& sidecar;
    Stores& stores;
    LowerTiers& lower_tiers;
  };
  explicit SessionEvents(const Parts& parts) : parts_(parts) {}

  // Waits until no attachment is being destroyed. REQUIRES: the control thread has ended.
  void close();

  void granted(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
               const std::vector<protocol::Grant>& grants) override;
  void opened(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
              std::uint32_t handle) override;
  void attached(const std::shared_ptr<Attachment>& attachment) override;
  void lost(const std::shared_ptr<Attachment>& attachment) override;
  void asked(const std::shared_ptr<Attachment>& attachment,
             const std::vector<protocol::SlotRef>& grants) override;
  void beaten(Attachment& attachment) override;
  bool let_go(std::shared_ptr<Attachment>& attachment) override;
  void acted(std::uint32_t request, const protocol::Acted& acted) override;
  void fetched(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
               const protocol::Fetched& fetched) override;
  void probed(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
              const protocol::Probed& probed, const protocol::ProbedEach& each) override;
  Status transfer_answered(Attachment& attachment, protocol::Decoder& decoder,
                           std::vector<Fd> fds) override;
  std::vector<protocol::SlotRef> still_writing() override;

 private:
  const Parts parts_;
  std::unique_ptr<CopyPool> letting_go_;  // one thread, made by the first let_go() with a GPU
};

}  // namespace larder::client
