#include "shim/client/session_events.h"

#include <exception>
#include <utility>

namespace larder::client {
namespace {

// Destroys an attachment on a thread of a pool.
class Parting final : public CopyJob {
 public:
  explicit Parting(std::shared_ptr<Attachment> attachment)
      : CopyJob(1, Urgency::kYields), attachment_(std::move(attachment)) {}
  bool copy(std::size_t) override {
    // Neighbours on the node wait for the same locks of the driver, see cuda/registration.h.
    attachment_->take_back_slowly();
    attachment_.reset();
    return true;
  }
  void finished() override { attachment_.reset(); }
  // REQUIRES: no pool has it.
  std::shared_ptr<Attachment> take_back() { return std::move(attachment_); }

 private:
  std::shared_ptr<Attachment> attachment_;
};

}  // namespace

void SessionEvents::close() {
  if (letting_go_) letting_go_->close();
}

void SessionEvents::attached(const std::shared_ptr<Attachment>& attachment) {
  // Namespaces first: stores need a handle.
  parts_.namespaces.attached(attachment);
  parts_.stores.attached(attachment);
}

// Only an engine with registered pages loads. A scheduler's client has no pages, and needs no pages
// of the arena made present.
void SessionEvents::beaten(Attachment& attachment) {
  if (!parts_.pages.any()) return;
  if (parts_.pages.complete())
    parts_.sidecar.beaten(attachment, parts_.pages.by_group(), parts_.copies.on_device());
  if (parts_.copies.on_device())
    attachment.make_ready(parts_.copies);
  else
    attachment.prefault_ahead();
}

// Unregistering an arena from a GPU waits for the GPU, for seconds. Neither the thread with the
// heartbeat nor a copying thread may wait that long, so a thread of its own does this work.
bool SessionEvents::let_go(std::shared_ptr<Attachment>& attachment) {
  if (!parts_.copies.on_device()) {
    attachment.reset();
    return true;
  }
  std::shared_ptr<Parting> parting;
  try {
    if (!letting_go_) letting_go_ = std::make_unique<CopyPool>(1);
    parting = std::make_shared<Parting>(std::move(attachment));
    // The pool's own queue may be full. Then the reference comes back, and the next beat tries
    // again.
    if (letting_go_->submit(parting)) return true;
  } catch (const std::exception&) {  // no thread or no memory now; the next beat tries again
  }
  if (parting) attachment = parting->take_back();
  return false;
}

void SessionEvents::opened(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                           std::uint32_t handle) {
  parts_.namespaces.opened(*attachment, request, handle);
}

void SessionEvents::granted(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                            const std::vector<protocol::Grant>& grants) {
  // An empty RESERVE is the fence behind a drop, with a bit of the request number.
  if (!parts_.namespaces.fence_passed(request)) parts_.stores.granted(attachment, request, grants);
}

void SessionEvents::lost(const std::shared_ptr<Attachment>& attachment) {
  // Every table hears of the loss, so each wait for an answer of this session ends now.
  parts_.sidecar.lost(*attachment);
  parts_.stores.lost(attachment);
  parts_.lower_tiers.lost(attachment);
}

void SessionEvents::asked(const std::shared_ptr<Attachment>& attachment,
                          const std::vector<protocol::SlotRef>& grants) {
  parts_.stores.asked(attachment, grants);
}

std::vector<protocol::SlotRef> SessionEvents::still_writing() {
  return parts_.stores.still_writing();
}

void SessionEvents::acted(std::uint32_t request, const protocol::Acted& acted) {
  parts_.lower_tiers.acts().acted(request, acted);
}

void SessionEvents::fetched(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                            const protocol::Fetched& fetched) {
  parts_.lower_tiers.fetches().answered(attachment, request, fetched);
}

void SessionEvents::probed(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                           const protocol::Probed& probed, const protocol::ProbedEach& each) {
  parts_.lower_tiers.tier_probes().answered(attachment, request, {probed, each});
}

Status SessionEvents::transfer_answered(Attachment& attachment, protocol::Decoder& decoder,
                                        std::vector<Fd> fds) {
  return parts_.sidecar.answered(attachment, decoder, std::move(fds));
}

}  // namespace larder::client
