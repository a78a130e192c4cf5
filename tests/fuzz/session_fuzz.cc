// The session state machine: streams of messages from three hostile sessions into the real
// SessionProtocol and Store, with no socket.
//
// Below these is a tier whose reads end by the input. The sessions export memory of the host, in
// which the real Transfers copy.
//
// Promises: a message is answered or its session ends with a named error; an honest engine beside
// the hostile ones keeps its held chunks; no two slots in use meet; after the end of all, no
// resource has leaked.
#include <array>
#include <optional>

#include "shim/protocol/transfer_messages.h"
#include "sidecar/base/log.h"
#include "sidecar/session/session_protocol.h"
#include "tests/fuzz/bystander.h"
#include "tests/fuzz/ops.h"
#include "tests/unit/tiering/held_tier.h"
#include "tests/unit/transfer/host_importer.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using protocol::Encoder;
using protocol::MessageType;

constexpr std::uint64_t kSlots = 8;
constexpr std::uint64_t kFirstGeneration = 1000;
constexpr std::size_t kSessions = 3;

class World {
 public:
  World() : box_(kSlots, kFirstGeneration), bystander_(box_) {
    static const bool quiet = (base::set_log_level(base::LogLevel::kError), true);
    (void)quiet;
    for (std::size_t i = 0; i < kSessions; ++i) begin(i);
  }

  void step(Input& input) {
    const std::uint8_t op = input.byte();
    const std::size_t who = (op >> 4) % kSessions;
    using namespace session_op;
    switch ((op & 15) % kOps) {
      case kRaw: return send(who, input.take_bytes(input.take<std::uint16_t>()));
      case kBody: return send_body(who, input);
      case kAttach: return send_attach(who);
      case kOpen: return send_open(who, input);
      case kReserve: return send_reserve(who, input);
      case kCommit: return send_commit(who, input);
      case kSlot: return send_slot(who, input);
      case kDrop: return send_drop(who, input.byte());
      case kHold: return hold(who, input);
      case kSilent:
        if (attached(who))
          box_.store().sessions().set_silent(sessions_[who]->facts().number,
                                             (input.byte() & 1) != 0);
        return;
      case kEnd: return end(who);
      case kIdle: return idle(input.byte() * 100);
      case kReturn: return come_back(who, input);
      case kFetch: return send_fetch(who, input);
      case kTier: return tier(input);
      default: box_.drop(); return;
    }
  }

  void check() const { bystander_.check(); }
  void finish() {
    for (std::size_t i = 0; i < kSessions; ++i) end(i);
    for (std::uint32_t number = 1; number <= last_number_; ++number) await_idle(number);
    must(exported_->open == 0, "no memory of engines that have gone is open");
    tier_.release();
    do {
      tier_.finish_all();
      promote();
    } while (!tier_.waiting().empty());
    must(tier_probes_.next_deadline_ns() == UINT64_MAX, "no ended session waits for an answer");
    must(box_.filled().kept_bytes == 0, "no slot is kept for ended engines");
    bystander_.leave(kSlots);
  }

 private:
  bool attached(std::size_t who) const {
    return sessions_[who]->state() == session::SessionProtocol::State::kAttached;
  }

  // The loop gives every connection a new number and a new region.
  void begin(std::size_t who) {
    session::SessionFacts facts;
    facts.number = ++last_number_;
    // caps that do not bind
    facts.arena_bytes = 4 * kSlots * store::testing_support::StoreBox::kSlotBytes;
    static std::array<store::testing_support::Memory, kSessions> memory{
        store::testing_support::zeroed_pages(sizeof(protocol::SessionRegion)),
        store::testing_support::zeroed_pages(sizeof(protocol::SessionRegion)),
        store::testing_support::zeroed_pages(sizeof(protocol::SessionRegion))};
    regions_[who] = reinterpret_cast<protocol::SessionRegion*>(memory[who].get());
    std::memset(memory[who].get(), 0, sizeof(protocol::SessionRegion));
    const session::SessionServices services{.store = box_.store(),
                                            .stats = box_.stats(),
                                            .clock = clock_,
                                            .promoter = &promoter_,
                                            .tier_probes = &tier_probes_,
                                            .transfers = &transfers()};
    sessions_[who].emplace(facts, *regions_[who], services, [] { return true; });
  }

  // Like the loop: memory that larderd itself writes for a session is not free before the end of
  // the write.
  void await_idle(std::uint32_t number) {
    for (int i = 0; i < 10'000 && transfers().busy(number); ++i) ::usleep(1000);
    must(!transfers().busy(number), "a copy ends");
    drain_transfers();
  }
  // The engine is dead, and its locks are gone.
  void end(std::size_t who) {
    if (attached(who)) leave(who);
    for (const store::SessionNumber number : ended_[who]) {
      await_idle(number);
      box_.store().sessions().release_quarantine(number);
    }
    ended_[who].clear();
    begin(who);
  }
  // The session's socket is closed, its lock may still be held.
  void leave(std::size_t who) {
    promoter_.end_session(sessions_[who]->facts().number);
    tier_probes_.end_session(sessions_[who]->facts().number);
    transfers().end_session(sessions_[who]->facts().number);
    sessions_[who]->leave_namespaces();
    box_.store().sessions().end(sessions_[who]->facts().number);
    ended_[who].push_back(sessions_[who]->facts().number);
  }
  // The engine lives on and attaches anew, with a list of its unfinished writes.
  void come_back(std::size_t who, Input& input) {
    if (attached(who)) leave(who);
    std::vector<protocol::SlotRef> still_written;
    for (std::uint8_t left = input.byte() % 4; left > 0; --left)
      still_written.push_back({input.byte(), 0, kFirstGeneration + input.byte()});
    begin(who);
    send_attach(who);
    std::erase_if(ended_[who], [&](store::SessionNumber earlier) {
      await_idle(earlier);
      box_.store().sessions().succeed(sessions_[who]->facts().number, earlier, still_written, true);
      if (box_.store().sessions().grants_of(earlier) != 0) return false;
      box_.store().sessions().release_quarantine(earlier);
      return true;
    });
  }

  void idle(std::uint64_t ms) {
    clock_.advance_ms(ms);
    bystander_.renew();
    store::Store& store = box_.store();
    store.sessions().watch_holds(clock_.now_ms(), false);
    session::GrantAges all_are_old;
    for (const std::uint64_t at_ms : {std::uint64_t{0}, all_are_old.age_ms() + 1})
      all_are_old.tick(at_ms, store.last_generation());
    for (std::optional<session::SessionProtocol>& session : sessions_)
      if (session->state() == session::SessionProtocol::State::kAttached)
        for (const std::vector<std::byte>& packet : session->inquiry().tick(
                 session->facts().number, store, box_.stats(), clock_.now_ms(), all_are_old))
          must(protocol::Decoder::open(packet).ok(), "a question is a message");
    store.verify_next();
    store.sweep();
  }

  void send(std::size_t who, Encoder& message) { send(who, message.packet()); }
  void send(std::size_t who, std::span<const std::byte> packet, std::vector<Fd> fds = {}) {
    const std::vector<std::byte> own = exact_copy(packet);
    const Result<session::Reply> reply = sessions_[who]->handle(own, std::move(fds));
    bool refused = false;
    while (reply.ok() && sessions_[who]->busy()) refused = !sessions_[who]->go_on().ok();
    if (refused) return end(who);
    if (reply.ok()) {
      must(reply->packet.size() <= protocol::kMaxPacketBytes, "an answer fits a packet");
      must(reply->packet.empty() || protocol::Decoder::open(reply->packet).ok(),
           "an answer is a message");
      return;
    }
    must(!reply.status().text().empty(), "an error is named");
    must(protocol::Decoder::open(session::error_packet(reply.status())).ok(),
         "an error is a message");
    end(who);
  }

  // Any type and body under a good header.
  void send_body(std::size_t who, Input& input) {
    Encoder message(static_cast<MessageType>(input.byte()), input.byte());
    message.append_text(input.take_text(input.take<std::uint16_t>() % 4096));
    send(who, message);
  }
  void send_attach(std::size_t who) {
    if (attached(who)) return;
    protocol::Hello hello{};
    hello.version_major = 1;
    send(who, Encoder(MessageType::kHello, 1).append(hello));
    send(who, Encoder(MessageType::kAttached, 0).append(protocol::Attached{}));
  }
  // Of the namespace that a request opened, or of a handle.
  void send_drop(std::size_t who, std::uint8_t which) {
    if ((which & 128) != 0)
      return send(who, Encoder(MessageType::kCloseNamespace, 0)
                           .append(protocol::CloseNamespace{2U + which % 4, which >> 6 & 1U}));
    send(who, Encoder(MessageType::kDropNamespace, 0).append(protocol::DropNamespace{which, 0}));
  }
  void send_open(std::size_t who, Input& input) {
    protocol::OpenNamespace open{};
    const std::uint32_t groups = input.byte() % 4;
    open.group_count = groups;
    open.shard_count = input.byte();
    open.chunk_tokens = 256;
    std::vector<protocol::GroupLayout> layouts;
    for (std::uint32_t i = 0; i < groups; ++i)
      layouts.push_back({input.take<std::uint16_t>(), input.byte(), 0});
    const std::string text = input.take_text(input.byte());
    open.id = protocol::namespace_id(text);
    open.text_bytes = static_cast<std::uint32_t>(text.size());
    const std::vector<std::uint64_t> parts(input.byte() % 3, input.take<std::uint16_t>());
    const protocol::NamespaceShards shards{input.byte() % 3U,
                                           static_cast<std::uint32_t>(parts.size())};
    send(who, Encoder(MessageType::kOpenNamespace, 2 + open.shard_count % 4)
                  .append(open)
                  .append_all(std::span<const protocol::GroupLayout>(layouts))
                  .append_text(text)
                  .append(shards)
                  .append_all(std::span<const std::uint64_t>(parts)));
  }
  void send_reserve(std::size_t who, Input& input) {
    protocol::Reserve reserve{};
    reserve.namespace_handle = input.byte();
    reserve.shard = input.byte();
    reserve.group = input.byte();
    std::vector<protocol::BlockHash> hashes, parents;
    const std::uint8_t counts = input.byte();
    for (std::uint8_t left = counts % 32; left > 0; --left) hashes.push_back({input.byte(), 1});
    if ((counts & 32) != 0)  // any chunk, also a later one, the chunk itself, or an unknown one
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        const std::uint64_t parent = input.byte();
        parents.push_back({parent, parent == 0 ? 0U : 1U});  // 0: none
      }
    reserve.count = static_cast<std::uint32_t>(hashes.size());
    reserve.parents = static_cast<std::uint32_t>(parents.size()) + counts / 64;
    send(who, Encoder(MessageType::kReserve, 3)
                  .append(reserve)
                  .append_all(std::span<const protocol::BlockHash>(hashes))
                  .append_all(std::span<const protocol::BlockHash>(parents)));
  }
  // Slots and generations are small numbers here, and can be guessed.
  void send_commit(std::size_t who, Input& input) {
    const protocol::CommitRecord record{input.byte(), 0, kFirstGeneration + input.byte(),
                                        input.byte()};
    send(who, Encoder(MessageType::kCommit, 0).append(protocol::SlotList{1, 0}).append(record));
  }
  void send_slot(std::size_t who, Input& input) {
    static constexpr MessageType kTypes[] = {MessageType::kBad, MessageType::kDisown,
                                             MessageType::kStillWriting};
    const MessageType type = kTypes[input.byte() % 3];
    const protocol::SlotRef slot{input.byte(), 0, kFirstGeneration + input.byte()};
    send(who, Encoder(type, 0).append(protocol::SlotList{1, 0}).append(slot));
  }
  void send_fetch(std::size_t who, Input& input) {
    protocol::Fetch fetch{input.byte(), input.byte(), 0, 0};
    const std::uint8_t request = input.byte();
    if ((request & 128) != 0)
      return send(who,
                  Encoder(MessageType::kFetchEnd, 0).append(protocol::EndFetch{request % 4U, 0}));
    std::vector<protocol::BlockHash> hashes;
    for (std::uint8_t left = input.byte() % 16; left > 0; --left)
      hashes.push_back({input.byte(), 1});
    fetch.count = static_cast<std::uint32_t>(hashes.size());
    if ((request & 64) != 0) {
      const std::uint32_t flags = (request & 32) != 0 ? protocol::kProbeEach : 0;
      const protocol::Probe probe{fetch.namespace_handle, fetch.deadline_ms, fetch.count, flags};
      send(who, Encoder(MessageType::kProbe, request % 4U)
                    .append(probe)
                    .append_all(std::span<const protocol::BlockHash>(hashes)));
      return promote();
    }
    send(who, Encoder(MessageType::kFetch, request % 4U)
                  .append(fetch)
                  .append_all(std::span<const protocol::BlockHash>(hashes)));
    promote();
  }
  // As the loop does between two messages.
  void promote() {
    std::vector<tiers::Message> messages;
    tier_.take_messages(messages);
    for (const tiers::Message& message : messages) {
      if (message.operation == tiers::Operation::kProbe)
        tier_probes_.on_probe(message);
      else
        must(promoter_.on_get(message), "the requested read is taken");
    }
    while (promoter_.go_on() || tier_probes_.go_on()) {
    }
    promoter_.miss_deadlines();
    tier_probes_.miss_deadlines();
    for (const tiering::TierProbes::Answer& answer : tier_probes_.take_answers()) {
      must(protocol::Decoder::open(session::probed_packet(answer)).ok(), "an answer is a message");
      must(answer.probed.shared <= answer.probed.families &&
               answer.probed.families <= protocol::kMaxKeysPerProbe,
           "no more is found than was asked about");
      if (!answer.each) continue;
      std::uint32_t last = 0;
      for (std::uint32_t i = 0; i < protocol::kMaxKeysPerProbe; ++i)
        if ((answer.each->there[i / 64] >> i % 64 & 1) != 0) last = i + 1;
      must(last == answer.probed.families, "the last family is the last bit");
    }
    for (const tiering::Promoter::Answer& answer : promoter_.take_answers()) {
      must(protocol::Decoder::open(session::fetched_packet(answer)).ok(), "an answer is a message");
      must(answer.fetched.families <= protocol::kMaxKeysPerFetch,
           "no more is answered for than was asked");
    }
  }
  void tier(Input& input) {
    using namespace session_op;
    switch (input.byte() % kTierOps) {
      case kStoreBelow: store_below(input); break;
      case kReadEnds:
        if (!tier_.waiting().empty()) tier_.finish_one();
        break;
      case kReadFails:
        if (!tier_.waiting().empty()) tier_.finish_one({Code::kDataLoss, "fuzz"});
        break;
      case kDeadlineMissed:
        if (!tier_.waiting().empty()) tier_.finish_one({Code::kDeadlineExceeded, "fuzz"}, true);
        break;
      case kReleased: tier_.release(); break;
      case kProbeEnds:
        if (!tier_.probes().empty()) tier_.finish_probe();
        break;
      case kTransfer: return send_transfer(input);
      case kProbeFails:
        if (!tier_.probes().empty()) tier_.finish_probe({Code::kUnavailable, "fuzz"});
        break;
      default:
        promoter_.tick((input.byte() & 1) != 0);
        tier_probes_.tick();
        break;
    }
    promote();
  }
  void send_transfer(Input& input) {
    using namespace session_op;
    const std::uint8_t op = input.byte() % kTransferOps;
    const std::size_t who = input.byte() % kSessions;
    if (op == kExport) send_export(who, input);
    if (op == kDecline)
      send(who, Encoder(MessageType::kExport, 0)
                    .append(protocol::Export{0, input.byte(), 0, 3, {}})
                    .append_text(input.take_text(3)));
    if (op == kWithdraw)
      send(who, Encoder(MessageType::kWithdraw, input.byte()).append(protocol::Withdraw{}));
    if (op == kCopy) send_copy(who, input);
    drain_transfers();
  }
  void send_export(std::size_t who, Input& input) {
    std::vector<protocol::ExportedRange> ranges;
    std::vector<Fd> fds;
    for (std::uint8_t left = input.byte() % 4; left > 0; --left) {
      const std::uint8_t what = input.byte();
      protocol::ExportedRange range{what % 4U, 0, std::uint64_t{input.byte()} * 4096, {}};
      ranges.push_back(range);
      if ((what & 16) != 0)
        fds.push_back(transfer::testing_support::memory_file(std::size_t{input.byte()} * 4096));
    }
    const protocol::Export head{
        static_cast<std::uint32_t>(ranges.size()) + ((input.byte() & 64) != 0),
        0,
        input.byte(),
        0,
        {}};
    send(who,
         Encoder(MessageType::kExport, input.byte())
             .append(head)
             .append_all(std::span<const protocol::ExportedRange>(ranges))
             .packet(),
         std::move(fds));
  }
  void send_copy(std::size_t who, Input& input) {
    protocol::Copy copy{input.byte(), input.byte(), input.byte(), 0,
                        kFirstGeneration + input.byte()};
    std::vector<std::uint64_t> pieces;
    for (std::uint8_t left = input.byte() % 8; left > 0; --left)
      pieces.push_back(protocol::make_piece(input.byte() % 4, input.take<std::uint16_t>()));
    copy.count = static_cast<std::uint32_t>(pieces.size());
    // In the form of an engine's question.
    const auto asked = static_cast<std::uint32_t>(protocol::CopyState::kAsked);
    const auto at = static_cast<off_t>(offsetof(protocol::TransferRegion, flags) +
                                       sizeof(protocol::CopyFlag) * copy.flag);
    [[maybe_unused]] const ssize_t written =
        ::pwrite(transfers().region_fd(sessions_[who]->facts().number), &asked, sizeof(asked), at);
    send(who, Encoder(MessageType::kCopy, 0)
                  .append(copy)
                  .append_all(std::span<const std::uint64_t>(pieces)));
  }
  void drain_transfers() {
    for (const transfer::Answer& answer : transfers().take_answers()) {
      must(protocol::Decoder::open(session::transfer_packet(answer)).ok(),
           "an answer is a message");
      must(!answer.refusal.refused() || !answer.refusal.text.empty(), "a refusal has a reason");
    }
  }
  // One for all inputs: its threads are costly. Its arena is its own, so that its writes touch no
  // other memory.
  static transfer::Transfers& transfers() {
    static std::vector<std::byte> arena(64 << 20);
    static auto* const all = new transfer::Transfers(
        std::make_unique<transfer::testing_support::HostImporter>(exported_), arena, [] {});
    return *all;
  }

  void store_below(Input& input) {
    const std::vector<std::uint32_t> handles = box_.store().namespaces().handles();
    const std::uint32_t handle = handles[input.byte() % handles.size()];
    const auto shard = static_cast<std::uint16_t>(input.byte() % 4);
    const store::Namespace& ns = box_.store().namespaces().at(handle);
    const protocol::GroupLayout* layout = ns.layout(shard, 0);
    if (layout == nullptr) return;
    const tiers::ChunkFacts facts{1, layout->piece_bytes * layout->pieces_per_chunk,
                                  layout->piece_bytes, 1};
    if (!tiers::plausible(facts)) return;
    const tiers::ChunkKey key{ns.spec.id, {input.byte(), 1}, shard, 0};
    tier_.store(key, facts, std::vector<std::byte>(facts.slot_bytes()));
    below_->added(key);
  }
  void hold(std::size_t who, Input& input) {
    const std::uint8_t place = input.byte();
    regions_[who]->holds_used = input.take<std::uint16_t>();
    regions_[who]->holds[place] =
        protocol::make_hold(input.byte(), kFirstGeneration + input.byte());
  }

  static inline const auto exported_ = std::make_shared<transfer::testing_support::HostDevice>();
  store::testing_support::StoreBox box_;
  Bystander bystander_;
  base::ManualClock clock_;
  tiering::TierLink link_{tiering::TierKind::kBackend,
                          std::make_unique<tiering::testing_support::HeldTier>(), "/held"};
  tiering::testing_support::HeldTier& tier_ =
      static_cast<tiering::testing_support::HeldTier&>(link_.tier());
  std::shared_ptr<tiering::ResidencyFilter> below_ = *tiering::ResidencyFilter::create(1 << 20);
  tiering::ReadableTier source_{link_, *below_, clock_};
  const std::array<tiering::ReadableTier*, 1> sources_{&source_};
  tiering::Promoter promoter_{
      sources_, box_.store(), box_.stats(), clock_, {box_.arena(), kSlots * 8192}};
  const std::array<tiering::SharedTier, 1> shared_{{{&link_, &source_}}};
  tiering::TierProbes tier_probes_{shared_,      sources_,     promoter_,
                                   box_.store(), box_.stats(), clock_};
  std::uint32_t last_number_ = 0;
  std::array<protocol::SessionRegion*, kSessions> regions_{};
  std::array<std::optional<session::SessionProtocol>, kSessions> sessions_;
  std::array<std::vector<store::SessionNumber>, kSessions> ended_;  // of living engines
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return run_steps<World>(data, size);
}
