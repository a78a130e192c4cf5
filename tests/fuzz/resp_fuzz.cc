// RESP: any bytes of a hostile server, through the transport, in pieces of any size.
//
// Promises: every command is answered once, in the order of the commands, by a reply of an expected
// type; a payload is written to its place and no byte beside, and no byte after a cancellation of
// its command; the pieces change only the time; after close() no command is left.
#include <deque>
#include <memory>

#include "sidecar/net/connection.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/ops.h"
#include "tests/unit/net/scripted_stream.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using namespace larder::net;

constexpr std::size_t kMostCommands = 64, kMargin = 16;
constexpr std::byte kUntouched{0xee};

struct Asked {
  std::uint64_t number = 0;
  std::string types;
  std::vector<std::byte> memory;  // a margin, the slot, a margin
  bool answered = false, cancelled = false;
};

class World {
 public:
  World() : connection_(std::make_unique<testing_support::ScriptedStream>(wire_)) {}

  void step(Input& input) {
    if (over_) return static_cast<void>(input.rest());
    switch (input.byte() % resp_op::kOps) {
      case resp_op::kAsk: return ask(input);
      case resp_op::kBytes: wire_->to_us += input.take_text(input.byte()); break;
      case resp_op::kPayload: {
        const std::size_t size = input.take<std::uint16_t>();
        wire_->to_us += "$" + std::to_string(size) + "\r\n" + std::string(size, 'p') + "\r\n";
        break;
      }
      case resp_op::kError: wire_->to_us += "-OOM full\r\n"; break;
      case resp_op::kPieces:
        wire_->receive_at_most = std::size_t{1} + input.take<std::uint16_t>();
        wire_->send_at_most = std::size_t{1} + input.byte();
        wire_->record_bytes = wire_->send_at_most > 128 ? wire_->send_at_most : 0;
        wire_->blocked = wire_->send_at_most % 2 == 0;
        break;
      case resp_op::kCancel: return cancel(input);
      default: pump(1); return;
    }
    pump(4);
  }

  void check() const {
    for (const Asked& one : asked_) {
      for (std::size_t i = 0; i < kMargin; ++i)
        must(one.memory[i] == kUntouched && one.memory[one.memory.size() - 1 - i] == kUntouched,
             "not a byte beside a payload");
      if (one.cancelled)
        for (const std::byte byte : one.memory)
          must(byte == kUntouched, "no byte is written for a cancelled command");
    }
  }

  void finish() {
    connection_.close({Code::kUnavailable, "the end"});
    for (const Asked& one : asked_)
      must(one.answered != one.cancelled, "every command is answered, or cancelled");
    must(connection_.commands() == 0 && connection_.bytes() == 0, "nothing is left");
    check();
  }

 private:
  void ask(Input& input) {
    if (asked_.size() == kMostCommands) return;
    static const char* const kTypes[] = {"$", "+", ":", "*", "$*"};
    const std::size_t target = input.byte() % 2 == 0 ? 0 : 1 + input.take<std::uint16_t>() % 5000;
    Asked& one = asked_.emplace_back();
    one.number = asked_.size();
    one.types = target != 0 ? "$" : kTypes[input.byte() % 5];
    one.memory.assign(target + 2 * kMargin, kUntouched);
    Request request;
    request.around = {"before", "after"};
    if (input.byte() % 2 == 0) request.body = std::span<const std::byte>(body_).first(input.byte());
    request.expect = {one.types, target, std::span(one.memory).subspan(kMargin, target)};
    request.owner = one.number;
    request.then = [this, &one](const Status& lost, const Reply& reply) {
      answered(one, lost, reply);
    };
    connection_.ask(std::move(request), 0);
    pump(1);
  }

  void answered(Asked& one, const Status& lost, const Reply& reply) {
    must(!one.answered && !one.cancelled, "every command is answered once");
    one.answered = true;
    for (const Asked& other : asked_)
      if (&other != &one && other.number < one.number)
        must(other.answered || other.cancelled, "in the order of the commands");
    if (!lost.ok() || reply.kind == Reply::Kind::kError) return;
    const char type = reply.kind == Reply::Kind::kStatus    ? '+'
                      : reply.kind == Reply::Kind::kInteger ? ':'
                      : reply.kind == Reply::Kind::kArray   ? '*'
                                                            : '$';
    // A nil is either's.
    must(one.types.find(type) != std::string::npos || reply.kind == Reply::Kind::kNil,
         "of an expected type");
    if (reply.kind == Reply::Kind::kPayload)
      if (static_cast<std::size_t>(reply.integer) + 2 * kMargin > one.memory.size())
        for (const std::byte byte : one.memory)
          must(byte == kUntouched, "a reply that is too long is thrown away");
  }

  void cancel(Input& input) {
    if (asked_.empty()) return;
    Asked& one = asked_[input.byte() % asked_.size()];
    bool touched = false;
    for (const std::byte byte : one.memory) touched = touched || byte != kUntouched;
    if (one.answered || one.cancelled || !connection_.cancel(one.number)) return;
    must(!touched, "a half received command cannot be cancelled");
    one.cancelled = true;
  }

  void pump(int times) {
    for (int i = 0; i < times && !over_; ++i) {
      bool more = false;
      const Status status = connection_.pump(0, more);
      if (status.ok()) continue;
      over_ = true;
      connection_.close(status);
    }
  }

  std::shared_ptr<testing_support::Wire> wire_ = std::make_shared<testing_support::Wire>();
  std::deque<Asked> asked_;  // in place: callbacks keep the operations
  std::vector<std::byte> body_ = std::vector<std::byte>(256, std::byte{'b'});
  Connection connection_;
  bool over_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return run_steps<World>(data, size);
}
