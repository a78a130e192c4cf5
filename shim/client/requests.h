// Requests: questions to larderd for which requests of the engine wait, each with a deadline.
// Fetches and probes are the two kinds of this table.
//
// Thread-safe. A question ends by its deadline, which this class counts, so a stopped larderd
// delays no request for longer. Only poll() waits for larderd, at most wait_ms.
//
// A Kind has:
//   State        the result of poll(), with `running`, `reason` and `elapsed_us`
//   Ask, Answer  the bodies of the two messages
//   kAsk         the type of the question
//   kMost        the number of questions that may be open
//   kMostHashes  the number of hashes in one question
//   kName        the name in error texts
//   served()     whether this larderd takes the question with these flags
//   read()       the State of an answer, cut to plausible values
//   give_free()  tells larderd the end of a question
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "shim/client/attachment.h"
#include "shim/client/lookup.h"
#include "shim/protocol/codec.h"

namespace larder::client {

template <typename Kind>
class Requests {
 public:
  using State = typename Kind::State;
  // Time for an answer that larderd sends at the deadline to arrive.
  static constexpr std::chrono::milliseconds kAnswerGrace{15};

  // Asks about the chunks of `hashes`, at most the first kMostHashes, and returns the ticket for
  // poll() and end(). `flags`: the last word of Ask. Errors: kUnavailable, `attachment` is nullptr,
  // or larderd has not opened the namespace; kUnsupported, this larderd does not take the question;
  // kInvalidArgument, no hashes or no deadline; kResourceExhausted, kMost questions are open.
  Result<std::uint64_t> start(const std::shared_ptr<Attachment>& attachment, const Hashes& hashes,
                              std::uint32_t deadline_ms, std::uint32_t flags = 0);
  // The state of a question; waits at most wait_ms for the end of a running one. kNotFound: the
  // ticket is unknown, or was ended.
  Result<State> poll(std::uint64_t ticket, std::uint32_t wait_ms);
  // Ends a question, running or not. An unknown ticket has no effect.
  void end(std::uint64_t ticket);

  // From the control thread.
  void answered(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                const typename Kind::Answer& answer);
  void lost(const std::shared_ptr<Attachment>& attachment);

 private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    std::shared_ptr<Attachment> attachment;  // nullptr once its session is lost
    Clock::time_point started, ends_at;
    std::uint64_t asked = 0;
    State state;
  };
  static Status check(const std::shared_ptr<Attachment>& attachment, const Hashes& hashes,
                      std::uint32_t deadline_ms, std::uint32_t flags);
  static std::uint32_t age_us(const Request& request);
  static void end_without_answer(Request& request, decltype(State::reason) reason);

  std::mutex mutex_;
  std::condition_variable ended_;
  // The ticket; other kinds may use the same number, since an answer's type tells the kind.
  std::uint32_t last_request_ = 0;
  std::unordered_map<std::uint64_t, Request> requests_;  // by ticket
};

template <typename Kind>
Status Requests<Kind>::check(const std::shared_ptr<Attachment>& attachment, const Hashes& hashes,
                             std::uint32_t deadline_ms, std::uint32_t flags) {
  if (!attachment) return {Code::kUnavailable, "not attached to larderd"};
  if (Status served = Kind::served(*attachment, flags); !served.ok()) return served;
  if (hashes.count == 0 || deadline_ms == 0)
    return {Code::kInvalidArgument,
            std::string("a ") + Kind::kName + " needs hashes and a deadline"};
  return {};
}

// A question is registered before it is sent, because the answer can arrive before send() returns.
template <typename Kind>
Result<std::uint64_t> Requests<Kind>::start(const std::shared_ptr<Attachment>& attachment,
                                            const Hashes& hashes, std::uint32_t deadline_ms,
                                            std::uint32_t flags) {
  if (Status status = check(attachment, hashes, deadline_ms, flags); !status.ok()) return status;
  const std::uint32_t handle = attachment->namespace_handle(hashes.ns);
  if (handle == Attachment::kNoHandle)
    return Status(Code::kUnavailable,
                  "larderd has not opened the namespace yet, or the namespace is closed");
  const std::lock_guard lock(mutex_);
  if (requests_.size() == Kind::kMost)
    return Status(Code::kResourceExhausted,
                  std::string("too many are not ended yet of kind ") + Kind::kName);
  do ++last_request_;
  while (last_request_ == 0 || requests_.contains(last_request_));
  const std::uint32_t number = last_request_;
  const auto count =
      static_cast<std::uint32_t>(std::min<std::size_t>(hashes.count, Kind::kMostHashes));
  protocol::Encoder message(Kind::kAsk, number);
  message.append(typename Kind::Ask{handle, deadline_ms, count, flags});
  for (std::size_t i = 0; i < count; ++i) message.append(hashes.at(i));
  const Clock::time_point now = Clock::now();
  requests_.emplace(
      number, Request{attachment, now, now + std::chrono::milliseconds(deadline_ms) + kAnswerGrace,
                      count, State()});
  if (attachment->outbox().send(message.packet())) return std::uint64_t{number};
  requests_.erase(number);
  return Status(Code::kUnavailable, "larderd went away");
}

template <typename Kind>
Result<typename Kind::State> Requests<Kind>::poll(std::uint64_t ticket, std::uint32_t wait_ms) {
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(wait_ms);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto at = requests_.find(
        ticket);  // again after each wait: another thread may have ended the question
    if (at == requests_.end())
      return Status(Code::kNotFound, std::string("no such ") + Kind::kName);
    Request& request = at->second;
    if (request.state.running && Clock::now() >= request.ends_at) {  // mutation: request-deadline
      end_without_answer(request, decltype(State::reason)::kLate);
      request.state.elapsed_us = age_us(request);
    }
    if (!request.state.running || Clock::now() >= until) return request.state;
    ended_.wait_until(lock, std::min(until, request.ends_at));
  }
}

template <typename Kind>
void Requests<Kind>::end(std::uint64_t ticket) {
  std::shared_ptr<Attachment> attachment;
  {
    const std::lock_guard lock(mutex_);
    const auto at = requests_.find(ticket);
    if (at == requests_.end()) return;
    attachment = std::move(at->second.attachment);
    requests_.erase(at);
    ended_.notify_all();
  }
  if (attachment) Kind::give_free(*attachment, static_cast<std::uint32_t>(ticket));
}

// Only an answer of the asked session counts: another session counts its requests from the start.
template <typename Kind>
void Requests<Kind>::answered(const std::shared_ptr<Attachment>& attachment, std::uint32_t request,
                              const typename Kind::Answer& answer) {
  const std::lock_guard lock(mutex_);
  const auto at = requests_.find(request);
  if (at == requests_.end() || at->second.attachment != attachment || !at->second.state.running)
    return;
  at->second.state = Kind::read(answer, at->second.asked, age_us(at->second));
  ended_.notify_all();
}

template <typename Kind>
void Requests<Kind>::lost(const std::shared_ptr<Attachment>& attachment) {
  const std::lock_guard lock(mutex_);
  for (auto& [ticket, request] : requests_) {
    if (request.attachment != attachment) continue;
    request.attachment.reset();
    if (request.state.running) end_without_answer(request, decltype(State::reason)::kFailed);
  }
  ended_.notify_all();
}

template <typename Kind>
std::uint32_t Requests<Kind>::age_us(const Request& request) {
  const auto age =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - request.started).count();
  return static_cast<std::uint32_t>(std::min<std::int64_t>(age, UINT32_MAX));
}

// answered() ignores an answer that arrives after this.
template <typename Kind>
void Requests<Kind>::end_without_answer(Request& request, decltype(State::reason) reason) {
  request.state.running = false;
  request.state.reason = reason;
}

}  // namespace larder::client
