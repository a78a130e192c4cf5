#include "shim/client/control.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "shim/base/test_point.h"
#include "shim/client/no_cache.h"
#include "shim/protocol/codec.h"

namespace larder::client {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::MessageType;

// After a session of this length, the next attempt has a short pause.
constexpr std::uint32_t kLastedMs = 60'000;

void drain(const Fd& wake) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake.get(), &count, sizeof(count));
}

// The records behind a message's head; the head has their count.
template <typename Head, typename Record>
Result<std::vector<Record>> read_counted(protocol::Decoder& decoder, std::uint32_t most,
                                         const char* name) {
  Head head{};
  std::vector<Record> records;
  if (!decoder.read(head) || !decoder.read_all(head.count, most, records))
    return Status(Code::kInvalidArgument, std::string(name) + " is too short for its count");
  return records;
}

// Why larderd ended the session.
Status read_error(protocol::Decoder& decoder) {
  protocol::Error error{};
  std::string text;
  if (decoder.read(error) && decoder.read_text(error.text_bytes, protocol::kMaxPacketBytes, text))
    return {error.code == 0 ? Code::kInternal : static_cast<Code>(error.code),
            "larderd ended the session: " + text};
  return {Code::kInvalidArgument, "ERROR is too short"};
}

std::string describe(const protocol::Welcome& welcome) {
  return "session " + std::to_string(welcome.session_number) + ", epoch " +
         std::to_string(welcome.epoch) + ", arena " + std::to_string(welcome.arena_bytes >> 20) +
         " MiB";
}

}  // namespace

Control::Control(std::string socket, std::string engine, const NamespaceSpec& spec, LogRing& log,
                 ControlListener& listener)
    : socket_(std::move(socket)),
      engine_(std::move(engine)),
      spec_(spec),
      log_(log),
      listener_(listener),
      wake_(std::make_shared<const Fd>(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {
  // Without the eventfd the thread could not be stopped.
  if (!wake_->valid()) throw std::system_error(errno, std::generic_category(), "eventfd");
  // The engine's signal handlers must not run on this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread(&Control::run, this);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Control::~Control() {
  stop_ = true;
  wake();
  // The thread notices `stop_` at once: each of its waits also polls the eventfd.
  thread_.join();
}

void Control::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_->get(), &one, sizeof(one));
}

void Control::hurry() {
  hurry_ = true;
  wake();
}

std::shared_ptr<Attachment> Control::attached() const {
  std::shared_ptr<Attachment> attachment = current();
  if (attachment && attachment->outbox().closed()) return nullptr;
  return attachment;
}

bool Control::wait_attached(std::uint32_t timeout_ms) {
  std::unique_lock lock(mutex_);
  // Session and outbox: a session that was lost at once does not count as attached.
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [this] { return current_ && !current_->outbox().closed(); });
}

void Control::run() {
  pthread_setname_np(pthread_self(), "larder-control");
  Retry retry(static_cast<std::uint32_t>(::getpid()) ^
              static_cast<std::uint32_t>(Clock::now().time_since_epoch().count()));
  while (!stop_) {
    const SocketFile file = SocketFile::at(socket_);
    Code why = Code::kUnavailable;
    try {
      // Returns after the whole session, so this loop has one round for each life of larderd.
      why = attach(retry);
    } catch (const std::exception& error) {  // out of memory must not end the engine
      log_.add("error", std::string("control thread: ") + error.what());
    }
    pause(retry.next_ms(why), file);
  }
}

// A function of its own, so that the reference to the earlier attachment in HandshakeInput ends
// here and does not last as long as the session.
Result<HandshakeOutput> Control::try_handshake() {
  const HandshakeInput input{socket_, engine_,  last_token_, last_epoch_, listener_.still_writing(),
                             wake_,   current()};
  Result<HandshakeOutput> output = shake_hands(input, spec_, stop_);
  // The failed session would otherwise get the announcements of holds without a reader.
  if (!output.ok() && input.earlier) input.earlier->holds().carry_over(nullptr);
  return output;
}

// One attempt to attach, and the session that may follow. Returns how the attempt or session ended.
Code Control::attach(Retry& retry) {
  // A wake-up of the lost session would end the first wait of the handshake.
  drain(*wake_);  // of an earlier session
  let_go_of_the_dead();
  Result<HandshakeOutput> output = try_handshake();
  if (!output.ok()) {
    if (!stop_) log_.add("warning", no_cache_line(output.status()));
    return output.status().code();
  }
  const std::shared_ptr<Attachment> attachment = output->attachment;
  // A long session shows a working larderd: a refusal at the end of such a session is no reason
  // for a long pause.
  const auto begin = Clock::now();
  Status ended;
  try {
    publish(attachment, output->difference);
    ended = serve(attachment);
  } catch (const std::exception&
               error) {  // lost() below must run, or callers that wait for answers wait for ever
    ended = {Code::kInternal, error.what()};
  }
  // Before lost(): no thread can send a question for which no answer comes.
  attachment->outbox().close();
  listener_.lost(attachment);
  if (!stop_)
    log_.add("warning",
             "lost larderd (" + ended.text() + "): stores are refused until larderd is back");
  if (!Retry::is_refusal(ended.code()) ||
      Clock::now() - begin >= std::chrono::milliseconds(kLastedMs))
    retry.attached();
  return ended.code();
}

// No larderd serves a gone arena again, and the next larderd may need the memory that the mapping
// keeps.
void Control::let_go_of_the_dead() {
  {
    const std::lock_guard lock(mutex_);
    if (current_ && current_->index().gone()) earlier_.push_back(std::exchange(current_, nullptr));
  }
  unmap_unused();
}

void Control::unmap_unused() {
  // Only this thread adds references to an earlier attachment, so a count of 1 stays 1.
  std::erase_if(earlier_, [this](std::shared_ptr<Attachment>& attachment) {
    return attachment.use_count() == 1 && listener_.let_go(attachment);
  });
}

void Control::publish(const std::shared_ptr<Attachment>& attachment,
                      const std::string& difference) {
  last_token_ = attachment->welcome().session_token;
  last_epoch_ = attachment->epoch();
  // Logged before current_ changes, so that a caller of wait_attached() finds the line in the log.
  log_.add("info", "attached to larderd at " + socket_ + ": " + describe(attachment->welcome()));
  difference_told_ = false;
  if (!spec_.fingerprint.empty()) tell_difference(difference);
  std::shared_ptr<Attachment> before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(current_, attachment);  // mutation: unmap-later
    ++attachments_;
  }
  if (before) earlier_.push_back(std::move(before));  // mutation: unmap-own-thread
  listener_.attached(attachment);
  changed_.notify_all();
  LARDER_POINT(session_published);
}

// Sent once a session, for the engine's own namespace, which is opened first. The namespace of an
// adapter always differs, by the adapter's line.
void Control::tell_difference(const std::string& difference) {
  if (std::exchange(difference_told_, true) || difference.empty()) return;
  log_.add("info", "the cache holds a namespace that differs: " + difference);
}

Status Control::serve(const std::shared_ptr<Attachment>& attachment) {
  constexpr auto kBeat = std::chrono::milliseconds(protocol::kHeartbeatIntervalMs);
  Outbox& outbox = attachment->outbox();
  auto next_beat = Clock::now();
  while (!stop_) {
    if (Clock::now() >= next_beat) {
      // First: larderd ends a session without heartbeats, whatever else this thread has to do.
      attachment->beat();
      LARDER_POINT(heart_beaten);
      listener_.beaten(*attachment);
      unmap_unused();
      next_beat = Clock::now() + kBeat;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(next_beat - Clock::now()).count();
    // POLLOUT only with waiting messages, or the poll would return at once for ever.
    const short events = outbox.pending() ? POLLIN | POLLOUT : POLLIN;
    pollfd waits[] = {{outbox.socket(), events, 0}, {wake_->get(), POLLIN, 0}};
    if (::poll(waits, 2, static_cast<int>(std::max<std::int64_t>(left, 0))) < 0 && errno != EINTR)
      return Status::from_errno(errno, "poll");
    if ((waits[1].revents & POLLIN) != 0) drain(*wake_);
    if (hurry_.exchange(false)) listener_.beaten(*attachment);
    if (Status received = receive_all(attachment); !received.ok()) return received;
    if (!outbox.flush())
      return {Code::kUnavailable, "the queue to larderd is full or its socket failed"};
  }
  return {Code::kUnavailable, "closing"};
}

Status Control::receive_all(const std::shared_ptr<Attachment>& attachment) {
  // A busy larderd may send without end, and the heartbeat must not wait.
  constexpr int kAtOnce = 64;  // then the heartbeat has its turn
  for (int i = 0; i < kAtOnce; ++i) {
    Result<protocol::Packet> packet = protocol::receive_packet(attachment->outbox().socket());
    if (!packet.ok())
      return packet.status().code() == Code::kResourceExhausted ? Status() : packet.status();
    // A malformed message ends the session: after it the two sides may disagree about grants.
    if (Status handled = handle(attachment, *packet); !handled.ok()) return handled;
  }
  return {};
}

Status Control::handle(const std::shared_ptr<Attachment>& attachment, protocol::Packet& packet) {
  Result<protocol::Decoder> decoder = protocol::Decoder::open(packet.bytes);
  if (!decoder.ok()) return decoder.status();
  if (decoder->type() == MessageType::kGranted) {
    const auto grants = read_counted<protocol::Granted, protocol::Grant>(
        *decoder, protocol::kMaxKeysPerReserve, "GRANTED");
    if (!grants.ok()) return grants.status();
    listener_.granted(attachment, decoder->request(), *grants);
    return {};
  }
  if (decoder->type() == MessageType::kAskGrants) {
    const auto grants = read_counted<protocol::SlotList, protocol::SlotRef>(
        *decoder, protocol::kMaxGrantsPerMessage, "ASK_GRANTS");
    if (!grants.ok()) return grants.status();
    listener_.asked(attachment, *grants);
    return {};
  }
  if (decoder->type() == MessageType::kNamespace) {
    protocol::Namespace opened{};
    std::string text;
    if (!decoder->read(opened) ||
        !decoder->read_text(opened.text_bytes, protocol::kMaxPacketBytes, text))
      return {Code::kInvalidArgument, "NAMESPACE is too short"};
    if (opened.handle == protocol::kNoNamespace) {
      // The namespace stays a miss. The engine goes on, and the session serves the other
      // namespaces.
      log_.add("warning", "larderd opens no further namespace: " + text);
    } else {
      tell_difference(text);
    }
    listener_.opened(attachment, decoder->request(), opened.handle);
    return {};
  }
  if (decoder->type() == MessageType::kActed) {
    protocol::Acted acted{};
    if (!decoder->read(acted)) return {Code::kInvalidArgument, "ACTED is too short"};
    listener_.acted(decoder->request(), acted);
    return {};
  }
  if (decoder->type() == MessageType::kFetched) {
    protocol::Fetched fetched{};
    if (!decoder->read(fetched)) return {Code::kInvalidArgument, "FETCHED is too short"};
    listener_.fetched(attachment, decoder->request(), fetched);
    return {};
  }
  if (decoder->type() == MessageType::kProbed) {
    protocol::Probed probed{};
    if (!decoder->read(probed)) return {Code::kInvalidArgument, "PROBED is too short"};
    protocol::ProbedEach each{};
    // A larderd before protocol 1.7 sends no bits.
    if (!decoder->read(each)) each = {};
    listener_.probed(attachment, decoder->request(), probed, each);
    return {};
  }
  if (decoder->type() == MessageType::kExported || decoder->type() == MessageType::kWithdrawn)
    return listener_.transfer_answered(*attachment, *decoder, std::move(packet.fds));
  if (decoder->type() == MessageType::kError) return read_error(*decoder);
  return {};  // a message of a newer minor version
}

// Pauses in steps, and ends early when the socket's file has changed since `file`: the cause of a
// refusal may be gone.
void Control::pause(std::uint32_t ms, const SocketFile& file) {
  const auto end = Clock::now() + std::chrono::milliseconds(ms);
  for (auto left = std::chrono::milliseconds(ms); left.count() > 0 && !stop_;) {
    // Steps of a quarter of a second: a pause of up to a minute ends soon after the start of a new
    // larderd.
    const auto step = std::min<std::int64_t>(left.count(), Retry::kLastMs);
    pollfd wait{wake_->get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(step)) > 0 && !stop_) drain(*wake_);
    if (ms > Retry::kLastMs && SocketFile::at(socket_) != file) return;
    left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  }
}

}  // namespace larder::client
