#include "cuda/registration.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "cuda/quiet_thread.h"

namespace larder::copy::cuda {
namespace {

using std::chrono::milliseconds;

// The locks of Turn have no wait with a deadline. A call for a slice takes about as long.
constexpr milliseconds kTurnPoll{5};

// The Registrations of this process by address. Static lifetime, because threads of the engine may
// outlive static objects.
struct Known {
  std::mutex mutex;
  std::condition_variable gone;
  std::map<std::pair<const std::byte*, std::size_t>, std::weak_ptr<Registration>> all;
};

Known& known() {
  static Known* const the = new Known;
  return *the;
}

std::string mib(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

// Errors of one device's context. That context fails from then on, but another device can still
// register.
bool is_lost_context(ResultCode code) {
  return code == kInvalidContext || code == kUncorrectableMemory ||
         (code >= 700 && code < 800 && code != kAlreadyRegistered);
}

bool of_its_kind(ResultCode code) {
  return code == kNotPermitted || code == kNotSupported;
}

// Makes the pages present on Larder's own thread, outside the driver's locks. Before kernel 5.14
// the call fails, and the driver makes the pages present.
void populate(std::span<std::byte> bytes) {
  // A failure needs no action: the registration itself tells whether the pages can be had.
  ::madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE);
}

// Whether other code has registered the whole range. The driver answers for single addresses, so
// each page is checked. REQUIRES: a context is current.
bool registered_by_others(const Driver& driver, std::span<std::byte> bytes) {
  // The smallest page. With larger pages the check only asks more often.
  constexpr std::size_t kPage = 4096;
  DevicePtr first = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPage) {
    DevicePtr here = 0;
    if (driver->mem_host_get_device_pointer(&here, bytes.data() + at, 0) != kSuccess) return false;
    if (at == 0) first = here;
    if (here - first != at) return false;
  }
  return true;
}

std::string turn_library(const RegistrationOptions& options) {
  if (!options.turn_library.empty()) return options.turn_library;
  const Result<const Driver*> driver = Driver::find();
  return driver.ok() ? (*driver)->file() : "";
}

// The meaning of a refusal, for the log. The driver pins memory itself and ignores the limits of
// the process.
const char* reason(ResultCode code) {
  switch (code) {
    case kOutOfMemory:
      return "there is no memory for the driver's tables, 16 bytes of kernel memory and 8 of the "
             "GPU's for each page and process: pages of 2 MiB (memory.hugepages) need 512 times "
             "less";
    case kNotPermitted:
    case kNotSupported:
      return "this GPU or container does not allow registered memory, as in confidential computing "
             "mode";
    case kInvalidValue:
      return "memory with this mapping cannot be pinned, as in sandboxed containers (gVisor, Kata)";
    case kAlreadyRegistered:
      return "another library of this process has registered a part of the memory";
    case kOperatingSystem: return "a call of the operating system failed";
    default: return "the driver gives no reason";
  }
}

}  // namespace

// Waits for a Registration of the same bytes that is being taken back, because CUDA would refuse
// the bytes until then.
std::shared_ptr<Registration> Registration::of(std::span<std::byte> memory, int file,
                                               const RegistrationOptions& options) {
  Known& all = known();
  std::unique_lock lock(all.mutex);
  const std::pair<const std::byte*, std::size_t> key{memory.data(), memory.size()};
  std::shared_ptr<Registration> found;
  all.gone.wait(lock, [&] {
    const auto at = all.all.find(key);
    return at == all.all.end() || (found = at->second.lock()) != nullptr;
  });
  if (found) return found;
  found.reset(new Registration(memory, file, options));
  all.all[key] = found;
  found->known_ = true;
  return found;
}

Registration::Registration(std::span<std::byte> memory, int file,
                           const RegistrationOptions& options)
    : memory_(memory), options_(options), turn_(file, turn_library(options)) {
  owners_.reserve(slices());  // a registered slice is never forgotten
  thread_ = quiet_thread([this] { work(); });
}

Registration::~Registration() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  // First: the thread may be inside of the driver with a slice.
  thread_.join();
  take_back();
  if (!known_) return;  // of() failed and holds the mutex
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  all.all.erase({memory_.data(), memory_.size()});
  all.gone.notify_all();
}

void Registration::take_back() {
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] == nullptr) continue;
    const Clock::time_point start = Clock::now();
    {
      const ContextScope scope(owners_[i]->driver(), owners_[i]->handle());
      // Only the context that registered a slice can take it back. A lost context cannot be
      // entered any more.
      if (scope.status().ok())  // mutation: registration-retired
        owners_[i]->driver()->mem_host_unregister(slice(i).data());
    }
    if (slowly_) std::this_thread::sleep_for(Clock::now() - start);
  }
}

void Registration::join(View& view) {
  {
    const std::lock_guard lock(mutex_);
    views_.push_back(&view);
    if (!refused_.empty()) {
      view.not_allowed = not_allowed_;
      // A late device hears the reason too: each device has a log of its own.
      view.log("warning", refused_);
    }
  }
  changed_.notify_all();
}

void Registration::leave(View& view) {
  Lock lock(mutex_);
  std::erase(views_, &view);
  // The thread may be filling this view without the mutex.
  changed_.wait(lock, [&] { return named_ != &view; });
}

void Registration::present(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    // Heartbeats repeat the number, so most calls change nothing.
    if (bytes <= present_) return;
    present_ = bytes;
  }
  changed_.notify_all();
}

std::span<std::byte> Registration::slice(std::size_t number) const {
  const std::size_t start = number * options_.slice_bytes;
  return memory_.subspan(start, std::min(options_.slice_bytes, memory_.size() - start));
}

void Registration::work() {
  pthread_setname_np(pthread_self(), "larder-pin");
  Lock lock(mutex_);
  try {
    while (!closing_) go_on(lock);
  } catch (const std::exception&) {  // lack of memory must not end the engine
    if (!lock.owns_lock()) lock.lock();
    named_ = nullptr;
    refused_ = "out of memory";
    for (View* const view : views_) view->ended = true;
    changed_.notify_all();
  }
  turn_.give_back();
}

void Registration::go_on(Lock& lock) {
  // Names before registrations: a late device can use the existing slices.
  if (View* const view = behind())
    name_next(lock, *view);
  else if (turn_.taken() || Clock::now() < rest_until_)
    rest(lock);
  else if (!next_is_present())
    changed_.wait(lock);
  else if (wait_for_turn(lock))
    register_next(lock);
}

// A device without the addresses of all registered slices. After a refusal the device keeps its
// addresses.
Registration::View* Registration::behind() const {
  for (View* const view : views_)
    if (view->ready < owners_.size() && !view->ended)
      return view;
    else if (view->ready == owners_.size() && !refused_.empty())
      view->ended = true;
  return nullptr;
}

Registration::View* Registration::first_alive() const {
  const auto at = std::ranges::find_if(views_, [](const View* view) { return !view->ended; });
  return at == views_.end() ? nullptr : *at;
}

bool Registration::next_is_present() const {
  if (first_alive() == nullptr || !refused_.empty() || owners_.size() == slices()) return false;
  const std::span<std::byte> next = slice(owners_.size());
  return present_ >= static_cast<std::uint64_t>(next.data() + next.size() - memory_.data());
}

void Registration::name_next(Lock& lock, View& view) {
  named_ = &view;
  lock.unlock();
  const Driver& driver = view.context->driver();
  // Read once: only this thread raises the number, and other threads read the addresses below.
  const std::size_t next = view.ready;
  Status status;
  {
    const ContextScope scope(driver, view.context->handle());
    status = scope.status();
    if (status.ok())
      status = driver.status(
          driver->mem_host_get_device_pointer(&view.devices[next], slice(next).data(), 0),
          "cuMemHostGetDevicePointer");
  }
  if (status.ok()) view.ready = next + 1;
  if (!status.ok()) end(view, "a GPU has no address for registered memory (" + status.text() + ")");
  lock.lock();
  named_ = nullptr;
  changed_.notify_all();
}

void Registration::end(View& view, const std::string& why) const {
  view.ended = true;
  view.log("warning", why + ": copies of the rest go through staging memory");
}

// The turn includes the pause after a call, so that all processes of the node pause together. Then
// the turn is free for 2 * kTurnPoll (10 ms), longer than a waiting process sleeps. During the
// pause the pages of the next slice are made present.
void Registration::rest(Lock& lock) {
  if (next_is_present() && populated_ == owners_.size()) {
    const std::span<std::byte> next = slice(populated_++);
    lock.unlock();
    populate(next);
    lock.lock();
  } else if (Clock::now() < rest_until_) {
    changed_.wait_until(lock, rest_until_);
  } else {
    turn_.give_back();
    rest_until_ = Clock::now() + 2 * kTurnPoll;
  }
}

// False: the caller checks its state again. A stopped process keeps its turn: after one wait of
// turn_wait this process registers without the turn.
bool Registration::wait_for_turn(Lock& lock) {
  const Clock::time_point deadline = Clock::now() + options_.turn_wait;
  while (!turn_.take() && turns_) {
    if (Clock::now() >= deadline) {
      turns_ = false;
      tell("warning", "another process has registered memory with CUDA for " +
                          std::to_string(options_.turn_wait.count()) +
                          " ms: this one does not wait for it any more");
      return true;
    }
    changed_.wait_for(lock, kTurnPoll);
    if (closing_) return false;
  }
  return true;
}

void Registration::register_next(Lock& lock) {
  if (owners_.empty()) begun_ = reported_ = Clock::now();
  const std::span<std::byte> bytes = slice(owners_.size());
  View* const view = first_alive();
  if (view == nullptr) return turn_.give_back();
  named_ = view;
  const ContextPtr context = view->context;
  // rest() may have made the pages present during the last pause.
  const bool populated = std::exchange(populated_, owners_.size() + 1) > owners_.size();
  lock.unlock();
  if (!populated) populate(bytes);
  const Clock::time_point start = Clock::now();
  bool ours = true;
  const ResultCode code = register_slice(bytes, context, ours);
  const Clock::duration took = Clock::now() - start;
  lock.lock();
  named_ = nullptr;
  changed_.notify_all();
  // A pause as long as the call: launches of other processes get at least half of the time.
  rest_until_ = Clock::now() + took;
  longest_ = std::max(longest_, took);
  // The registration goes on with another device, whose context works.
  if (is_lost_context(code))
    return end(*view, "a GPU's context is lost (" +
                          context->driver().status(code, "cuMemHostRegister").text() + ")");
  if (code != kSuccess) return refuse(context->driver().status(code, "cuMemHostRegister"), code);
  owners_.push_back(ours ? context : nullptr);  // mutation: registration-of-others
  tell_progress();
}

ResultCode Registration::register_slice(std::span<std::byte> bytes, const ContextPtr& context,
                                        bool& ours) {
  const Driver& driver = context->driver();
  const ContextScope scope(driver, context->handle());
  if (!scope.status().ok()) return kInvalidContext;
  const ResultCode code =
      driver->mem_host_register(bytes.data(), bytes.size(), kHostPortable | kHostDeviceMap);
  if (code != kAlreadyRegistered) return code;
  ours = false;
  return registered_by_others(driver, bytes) ? kSuccess : code;  // mutation: registered-whole
}

void Registration::tell(std::string_view level, const std::string& text) const {
  for (const View* view : views_) view->log(level, text);
}

void Registration::tell_progress() {
  const Clock::time_point now = Clock::now();
  const std::size_t done = std::min(owners_.size() * options_.slice_bytes, memory_.size());
  const bool all = done == memory_.size();
  if (now - reported_ < options_.progress_every &&
      (!all || now - begun_ < options_.progress_every / 10))
    return;
  reported_ = now;
  const auto ms = [](Clock::duration time) {
    return std::to_string(std::chrono::duration_cast<milliseconds>(time).count()) + " ms";
  };
  tell("info", "registered " + mib(done) + " of " + mib(memory_.size()) + " with CUDA in " +
                   ms(now - begun_) + ", the longest call " + ms(longest_) +
                   (all ? "" : ": copies of the rest go through staging memory until then"));
}

void Registration::refuse(const Status& status, ResultCode code) {
  refused_ = "the arena cannot be registered with CUDA beyond " +
             mib(owners_.size() * options_.slice_bytes) + " of " +
             std::to_string(memory_.size() >> 20) + " (" + status.text() + "; " + reason(code) +
             "): copies of the rest go through staging memory";
  not_allowed_ = of_its_kind(code);
  for (View* const view : views_) view->not_allowed = not_allowed_;
  tell("warning", refused_);
}

}  // namespace larder::copy::cuda
