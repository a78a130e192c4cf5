// Plug-ins: whatever a hostile plug-in sends, and writes into its region at any time, into the real
// PluginEngine with its socket and its bounce region.
//
// Promises: each operation is answered exactly once, by its deadline at the latest; a loaded chunk
// fits its key and its slot; the bytes of an answered slot stay; retired bytes are bounded.
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <filesystem>
#include <map>
#include <memory>

#include "sidecar/tiers/plugin/plugin_engine.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/ops.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using namespace larder::plugin;

constexpr std::uint64_t kDeadlineMs = 100;
constexpr std::size_t kMostTickets = 64;

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string packet_of(Kind kind, std::uint16_t count, std::uint64_t ticket,
                      const std::string& body) {
  return raw(static_cast<std::uint16_t>(kind)) + raw(count) +
         raw(static_cast<std::uint32_t>(kHeaderBytes + body.size())) + raw(ticket) + body;
}

// One folder for all inputs of the process.
const std::string& socket_path() {
  static const std::string path = [] {
    char name[] = "/tmp/larder-fuzz-XXXXXX";
    return std::string(::mkdtemp(name)) + "/socket";
  }();
  return path;
}

PluginOptions options_of_target() {
  PluginOptions options;
  options.socket = socket_path();
  options.region_bytes = 1 << 20;
  options.patience_ms = 1000;
  options.accepted_operations = 16;
  return options;
}

// The plug-in's side of the socket.
class Hostile {
 public:
  Hostile() : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, socket_path().c_str(), sizeof(name.sun_path) - 1);
    [[maybe_unused]] const int connected =
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  }
  void send(const std::string& packet) const {
    [[maybe_unused]] const ssize_t sent =
        ::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
  }
  void done(std::uint64_t ticket, std::uint32_t outcome, std::uint64_t value) const {
    send(packet_of(Kind::kDone, 1, 0, raw(ticket) + raw(value) + raw(outcome) + raw(0U)));
  }
  // Reads all packets; notes tickets, offsets and sizes of PUT and GET.
  void read() {
    std::string bytes(kMostPacketBytes, '\0');
    for (;;) {
      iovec part{bytes.data(), bytes.size()};
      alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) return;
      if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) map(header);
      note(bytes.substr(0, static_cast<std::size_t>(got)));
    }
  }
  struct Call {
    Kind kind = Kind::kGet;
    std::uint64_t ticket = 0, offset = 0, bytes = 0;
    std::string key;
  };
  std::vector<Call> calls;
  std::span<std::byte> region() const { return {region_.data(), region_.size()}; }

 private:
  void map(const cmsghdr* header) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    const Fd region(fd);
    Result<Mapping> mapping =
        Mapping::map_shared(region, 1 << 20, PROT_READ | PROT_WRITE, "region");
    if (mapping.ok()) region_ = *std::move(mapping);
  }
  void note(const std::string& packet) {
    const auto word = [&](std::size_t at) {
      std::uint64_t value = 0;
      if (at + 8 <= packet.size()) std::memcpy(&value, packet.data() + at, 8);
      return value;
    };
    std::uint16_t kind = 0, count = 0;
    std::memcpy(&kind, packet.data(), 2);
    std::memcpy(&count, packet.data() + 2, 2);
    const std::size_t key = object_key("larder", {}).size();
    const Kind what = static_cast<Kind>(kind);
    if (what == Kind::kExist || what == Kind::kClear) calls.push_back({what, word(8), 0, 0, {}});
    if (what != Kind::kPut && what != Kind::kGet && what != Kind::kRemove) return;
    const std::size_t head = what == Kind::kRemove ? 8 : 24;
    for (std::size_t i = 0, at = kHeaderBytes; i < count; ++i, at += head + key) {
      Call call{what, word(at), 0, 0, packet.substr(at + head, key)};
      if (what != Kind::kRemove) call.offset = word(at + 8), call.bytes = word(at + 16);
      must(call.offset % 4096 == 0 && call.offset + call.bytes <= 1 << 20, "within the region");
      calls.push_back(call);
    }
  }
  Fd socket_;
  Mapping region_;
};

class World {
 public:
  World() { must(engine_.start().ok(), "the engine starts"); }

  void step(Input& input) {
    const std::uint8_t op = input.byte() % plugin_op::kOps;
    if (op >= plugin_op::kPut && op <= plugin_op::kEvict)
      command(op, input.byte() % 4);
    else
      hostile(op, input);
    turn();
  }

  void check() {
    std::vector<tiers::Outcome> outcomes;
    engine_.take_outcomes(outcomes);
    for (const tiers::Outcome& outcome : outcomes) answered(outcome.message);
    for (const auto& [ticket, asked] : open_)
      must(clock_.now_ns() < asked.deadline_ns, "answered by its deadline");
    for (const auto& [ticket, asked] : answered_)
      must(asked.slot == asked.after, "an answered slot keeps its bytes");
  }

  void finish() {
    clock_.advance_ms(2 * kDeadlineMs);
    turn();
    check();
    must(open_.empty(), "all is answered in the end");
  }

 private:
  struct Asked {
    tiers::ChunkKey key;
    std::uint64_t deadline_ns = 0;
    std::vector<std::byte> slot, after;
  };

  void command(std::uint8_t op, std::uint8_t number) {
    if (open_.size() >= 12) return;
    const std::uint64_t ticket = ++last_ticket_;
    tiers::Command command;
    command.ticket = ticket;
    command.key = {{1, 2}, {number, 3}, 0, 0};
    command.deadline_ns = clock_.now_ns() + kDeadlineMs * 1'000'000;
    if (op == plugin_op::kEvict) {
      command.kind = tiers::Command::Kind::kEvict;
      return engine_.accept(std::move(command));
    }
    Asked& asked = open_[ticket];
    asked.key = command.key;
    asked.deadline_ns = command.deadline_ns;
    asked.slot.assign(8192, static_cast<std::byte>(number));
    if (op == plugin_op::kPut || op == plugin_op::kGet) command.slot = asked.slot;
    command.facts = {1, 4096, 4096, number, 0};
    command.operation = op == plugin_op::kPut     ? tiers::Operation::kPut
                        : op == plugin_op::kGet   ? tiers::Operation::kGet
                        : op == plugin_op::kProbe ? tiers::Operation::kProbe
                                                  : tiers::Operation::kDrop;
    if (op == plugin_op::kProbe) command.keys = {command.key};
    if (op == plugin_op::kDrop) known_.hide(command.key.namespace_id);
    engine_.accept(std::move(command));
  }

  void hostile(std::uint8_t op, Input& input) {
    if (op == plugin_op::kConnect) plugins_.push_back(std::make_unique<Hostile>());
    if (plugins_.size() > 4) plugins_.erase(plugins_.begin());
    if (op == plugin_op::kTime) clock_.advance_ms(std::uint64_t{input.byte()} * 10);
    if (plugins_.empty()) return;
    turn();
    Hostile& plugin = *plugins_.back();
    plugin.read();
    const auto ticket = [&](std::uint8_t number) -> std::uint64_t {
      return plugin.calls.empty() ? number : plugin.calls[number % plugin.calls.size()].ticket;
    };
    switch (op) {
      case plugin_op::kReady:
        return plugin.send(packet_of(Kind::kReady, 0, 0,
                                     raw(std::uint16_t{input.byte()}) + std::string(6, '\0') +
                                         std::string("\4\0name\1\0x", 9)));
      case plugin_op::kDone: {
        const std::uint64_t which = ticket(input.byte());
        const std::uint32_t outcome = input.byte() % 8;
        return plugin.done(which, outcome, input.take<std::uint16_t>());
      }
      case plugin_op::kFound: {
        const std::uint64_t which = ticket(input.byte());
        const std::uint32_t outcome = input.byte() % 8;
        const std::string there(1 + input.byte() % 4, '\1');
        return plugin.send(packet_of(Kind::kFound, static_cast<std::uint16_t>(there.size()), which,
                                     raw(outcome) + raw(0U) + there));
      }
      case plugin_op::kState:
        return plugin.send(
            packet_of(Kind::kState, 0, 0,
                      input.take_text(2) + std::string(6, '\0') + std::string("\2\0no", 4)));
      case plugin_op::kBytes: return plugin.send(input.take_text(input.byte()));
      case plugin_op::kScribble: {
        const std::span<std::byte> region = plugin.region();
        const std::size_t at = input.byte() * std::size_t{64};
        if (at < region.size()) region[at] = static_cast<std::byte>(input.byte());
        return;
      }
      case plugin_op::kHangUp: plugins_.pop_back(); return;
      case plugin_op::kServe: return serve(plugin);
      default: return;
    }
  }

  // As a plug-in that keeps the contract, for the calls read so far.
  void serve(Hostile& plugin) {
    for (const Hostile::Call& call : std::exchange(plugin.calls, {})) {
      const std::span<std::byte> piece = plugin.region().empty()
                                             ? std::span<std::byte>()
                                             : plugin.region().subspan(call.offset, call.bytes);
      const auto found = objects_.find(call.key);
      const bool there = found != objects_.end();
      if (call.kind == Kind::kPut) {
        objects_[call.key].assign(piece.begin(), piece.end());
        plugin.done(call.ticket, 0, 0);
      } else if (call.kind == Kind::kGet && there && found->second.size() <= piece.size()) {
        std::ranges::copy(found->second, piece.begin());
        plugin.done(call.ticket, 0, found->second.size());
      } else if (call.kind == Kind::kExist) {
        plugin.send(packet_of(Kind::kFound, 1, call.ticket, std::string(8, '\0') + '\1'));
      } else {
        if (call.kind == Kind::kRemove && there) objects_.erase(found);
        plugin.done(call.ticket, call.kind == Kind::kClear ? 0U : 1U, 0);
      }
    }
  }

  void turn() {
    for (int i = 0; i < 3; ++i) engine_.turn(0);
  }

  void answered(const tiers::Message& message) {
    const auto at = open_.find(message.ticket);
    must(at != open_.end(), "answered once");
    must(!message.slot_busy, "a slot is never busy");
    if (message.operation == tiers::Operation::kGet && message.status.ok())
      must(tiers::plausible(message.facts) && message.facts.slot_bytes() <= at->second.slot.size(),
           "a loaded chunk fits its slot");
    at->second.after = at->second.slot;
    // Moved, and not copied: the engine must not write into the memory of the slot.
    answered_[message.ticket] = std::move(at->second);
    open_.erase(at);
    if (answered_.size() > kMostTickets) answered_.erase(answered_.begin());
  }

  base::ManualClock clock_;
  const PluginOptions options_ = options_of_target();
  KnownChunks known_{64, nullptr};
  Layouts layouts_;
  std::vector<std::unique_ptr<Hostile>> plugins_;
  std::map<std::string, std::vector<std::byte>> objects_;
  std::map<std::uint64_t, Asked> open_, answered_;
  std::uint64_t last_ticket_ = 0;
  PluginEngine engine_{clock_, options_, known_, layouts_};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return run_steps<World>(data, size);
}
