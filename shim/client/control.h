// Control: the native thread that attaches to larderd, keeps the session alive, and attaches again
// after every loss.
//
// The thread raises the heartbeat, flushes the outbox and passes answers to the listener. After a
// lost session its attachment stays current until the next one replaces it or its index is gone:
// look-ups and loads go on over the old mapping. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "shim/client/attachment.h"
#include "shim/client/handshake.h"
#include "shim/client/layout.h"
#include "shim/client/log_ring.h"
#include "shim/client/retry.h"
#include "shim/protocol/codec.h"

namespace larder::client {

// Called on the control thread; must not block.
class ControlListener {
 public:
  virtual ~ControlListener() = default;
  virtual void granted(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                       const std::vector<protocol::Grant>& grants) = 0;
  // larderd has answered an OPEN_NAMESPACE of this session.
  virtual void opened(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                      std::uint32_t handle) = 0;
  // `attachment` is the current one from now on.
  virtual void attached(const std::shared_ptr<Attachment>& attachment) = 0;
  // The session of `attachment` has ended and sends no further answer.
  virtual void lost(const std::shared_ptr<Attachment>& attachment) = 0;
  // larderd asks whether these grants are still being written.
  virtual void asked(const std::shared_ptr<Attachment>& attachment,
                     const std::vector<protocol::SlotRef>& grants) = 0;
  // Once a heartbeat, and at a hurry(), while the session of `attachment` lives.
  virtual void beaten(Attachment& attachment) = 0;
  // Takes the last reference to an attachment that is no longer current, and destroys the
  // attachment, on another thread if that takes long. False: not now, and `attachment` is
  // unchanged.
  virtual bool let_go(std::shared_ptr<Attachment>& attachment) {
    attachment.reset();
    return true;
  }
  virtual void acted(std::uint32_t request, const protocol::Acted& acted) = 0;
  virtual void fetched(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                       const protocol::Fetched& fetched) = 0;
  // `each`: no bit is set where the answer has none.
  virtual void probed(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                      const protocol::Probed& probed, const protocol::ProbedEach& each) = 0;
  // EXPORTED or WITHDRAWN, with the descriptors of the message.
  virtual Status transfer_answered(Attachment& attachment, protocol::Decoder& decoder,
                                   std::vector<Fd> fds) = 0;
  // Grants of lost sessions that are still being written.
  virtual std::vector<protocol::SlotRef> still_writing() = 0;
};

class Control {
 public:
  // `log`, `spec` and `listener` outlive the object. Starts the thread.
  Control(std::string socket, std::string engine, const NamespaceSpec& spec, LogRing& log,
          ControlListener& listener);
  // Ends the session and joins the thread.
  ~Control();

  // The attachment to look up in, or nullptr before the first one.
  std::shared_ptr<Attachment> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  // The same if the session is alive, else nullptr: for stores.
  std::shared_ptr<Attachment> attached() const;
  std::uint32_t attachments() const { return attachments_; }
  bool wait_attached(std::uint32_t timeout_ms);
  // Calls ControlListener::beaten() now, not at the next heartbeat.
  void hurry();

 private:
  void run();
  Result<HandshakeOutput> try_handshake();
  Code attach(Retry& retry);
  Status serve(const std::shared_ptr<Attachment>& attachment);
  Status receive_all(const std::shared_ptr<Attachment>& attachment);
  // Takes over the packet's descriptors.
  Status handle(const std::shared_ptr<Attachment>& attachment, protocol::Packet& packet);
  void publish(const std::shared_ptr<Attachment>& attachment, const std::string& difference);
  void tell_difference(const std::string& difference);
  void let_go_of_the_dead();
  void unmap_unused();
  void pause(std::uint32_t ms, const SocketFile& file);
  void wake();

  const std::string socket_;
  const std::string engine_;
  const NamespaceSpec& spec_;
  LogRing& log_;
  ControlListener& listener_;
  std::shared_ptr<const Fd> wake_;
  std::atomic<bool> stop_{false}, hurry_{false};
  std::atomic<std::uint32_t> attachments_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Attachment> current_;
  // Earlier attachments that other threads may still use; used by the control thread. Unmapping an
  // arena takes milliseconds for each GiB, and longer where the pages go too. The control thread
  // keeps a reference, so an engine's thread never has the last one.
  std::vector<std::shared_ptr<Attachment>> earlier_;
  std::uint64_t last_token_ = 0, last_epoch_ = 0;  // the control thread's
  bool difference_told_ = false;                   // of this session
  std::thread thread_;                             // last: it uses all of the above
};

}  // namespace larder::client
