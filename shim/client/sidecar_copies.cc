#include "shim/client/sidecar_copies.h"

#include <unistd.h>

#include <algorithm>

#include "shim/base/utf8.h"
#include "shim/protocol/transfer_messages.h"

namespace larder::client {
namespace {

using copy::TransferRefusal;
using protocol::CopyVerb;
using protocol::Encoder;
using protocol::MessageType;
using protocol::TransferReason;

std::string in_words(const TransferRefusal& why) {
  return std::string(protocol::transfer_reason_name(why.reason)) + ": " + why.text;
}

// Whole layers and not pages: an export names allocations, and there are few.
std::vector<copy::PageSpan> spans_of(const std::vector<GroupPages>& groups) {
  std::vector<copy::PageSpan> spans;
  for (const GroupPages& layers : groups)
    for (const LayerPages& layer : layers)
      if (layer.page_count != 0)
        spans.push_back(
            {layer.base, (layer.page_count - 1) * layer.stride_bytes + layer.page_bytes});
  return spans;
}

}  // namespace

Result<std::uint64_t> store_by_itself(Attachment& attachment, const copy::CopyEngine& own,
                                      const copy::PieceList& from, std::span<std::byte> slot) {
  // Before the first write of the device: larderd must know even if the process dies during the
  // write.
  if (own.outlives_process() && !attachment.tell_device_writes())  // mutation: gpu-told
    return Status(Code::kUnavailable,
                  "larderd cannot be informed that a device writes into its memory");
  return own.store(from, slot);
}

void SidecarCopies::beaten(Attachment& attachment, const std::vector<GroupPages>& pages,
                           bool on_device) {
  std::uint64_t number = 0;
  {
    const Lock lock(mutex_);
    // One export for each session. After a refusal only the next session asks again.
    if (asleep_ || state_ != State::kNew ||
        (attachment.welcome().capabilities & protocol::kCapabilityTransfer) == 0)
      return;
    session_ = &attachment;
    if (!on_device)
      return decline({TransferReason::kHostMemory,
                      "the KV pages lie in host memory, which needs no CUDA IPC"});
    state_ = State::kLooking;
    // A probe may end after its session or after leave(). The number marks the result as void.
    number = ++probe_;
  }
  if (background_([this, &pages, number] { probe(pages, number); })) return;
  const Lock lock(mutex_);
  if (state_ == State::kLooking && probe_ == number)
    state_ = State::kNew;  // the next beat tries again
}

// The result counts only if session and memory are still the same afterwards.
void SidecarCopies::probe(const std::vector<GroupPages>& pages, std::uint64_t number) {
  const auto is_void = [&] { return state_ != State::kLooking || probe_ != number; };
  {
    const Lock lock(mutex_);
    if (is_void()) return;
    ++looking_;
  }
  TransferRefusal refusal;
  copy::PageExport exported;
  std::vector<copy::MemoryHandle> handles;
  try {
    // Without the mutex: the digest of a page waits for the GPU.
    refusal = look_at(pages);
    if (!refusal.refused()) refusal = exporter_.take(spans_of(pages), exported, handles);
  } catch (const std::exception& error) {
    refusal = {TransferReason::kFailed, error.what()};
  }
  const Lock lock(mutex_);
  --looking_;
  changed_.notify_all();
  if (is_void()) return;
  try {
    if (refusal.refused()) return decline(refusal);
    state_ = State::kAsked;
    exported_ = std::move(exported);
    send_exports(exported_.device(), std::move(handles));
  } catch (const std::exception&) {  // out of memory
    // larderd may have opened a part of the memory; the end of the session closes that part.
    if (state_ == State::kAsked) session_->outbox().close();
    state_ = State::kRefused;
  }
}

// Without kernels in this process, copies by larderd cannot be verified. Reads one page, writes
// none.
TransferRefusal SidecarCopies::look_at(const std::vector<GroupPages>& pages) const {
  const LayerPages& layer =
      std::ranges::find_if(pages, [](const GroupPages& group) { return !group.empty(); })->front();
  std::byte* page = layer.base;
  std::vector<std::uint64_t> table(protocol::units_per_piece(layer.page_bytes));
  const Status status = own_.digests({{&page, 1}, layer.page_bytes, nullptr}, table);
  if (status.ok()) return {};
  return {TransferReason::kNotVerified,
          "the engine could not verify a copy of larderd: " + status.text()};
}

// Splits the handles into messages within the limits of ranges and descriptors.
void SidecarCopies::send_exports(const copy::DeviceId& device,
                                 std::vector<copy::MemoryHandle> handles) {
  awaited_ = 0;
  for (std::size_t next = 0; next < handles.size();) {
    std::vector<protocol::ExportedRange> ranges;
    std::vector<Fd> fds;
    for (; next < handles.size() && ranges.size() < protocol::kMaxExportsPerMessage; ++next) {
      copy::MemoryHandle& handle = handles[next];
      // The kernel passes a bounded number of descriptors with one packet.
      if (handle.kind == protocol::MemoryKind::kDescriptor && fds.size() == protocol::kMaxPacketFds)
        break;
      protocol::ExportedRange range{
          static_cast<std::uint32_t>(handle.kind), 0, handle.size_bytes, {}};
      std::ranges::copy(handle.bytes, range.handle);
      ranges.push_back(range);
      if (handle.kind == protocol::MemoryKind::kDescriptor) fds.push_back(std::move(handle.fd));
    }
    protocol::Export head{static_cast<std::uint32_t>(ranges.size()),
                          0,
                          static_cast<std::uint32_t>(::getpid()),
                          0,
                          {}};
    std::ranges::copy(device, head.device);
    Encoder message(MessageType::kExport, 0);
    message.append(head).append_all(std::span<const protocol::ExportedRange>(ranges));
    if (!session_->outbox().send(message.packet(), std::move(fds))) return;
    // Each message has an answer. The memory counts as open with the last one.
    ++awaited_;
  }
}

void SidecarCopies::decline(const TransferRefusal& why) {
  state_ = State::kRefused;
  // Pages in host memory are the normal case on CPUs, and need no line in the log.
  if (why.reason != TransferReason::kHostMemory)
    log_.add("warning", "larderd does not copy for this engine (" + in_words(why) + ")");
  tell_why(why);
}

// The reason appears in larderd's status.
void SidecarCopies::tell_why(const TransferRefusal& why) {
  // Cut between two characters of UTF-8, not within one.
  const std::string text(cut_text(why.text, protocol::kMaxTransferTextBytes));
  Encoder message(MessageType::kExport, 0);
  message
      .append(protocol::Export{0,
                               static_cast<std::uint32_t>(why.reason),
                               0,
                               static_cast<std::uint32_t>(text.size()),
                               {}})
      .append_text(text);
  session_->outbox().send(message.packet());
}

Status SidecarCopies::answered(Attachment& attachment, protocol::Decoder& decoder,
                               std::vector<Fd> fds) {
  const Lock lock(mutex_);
  if (session_ != &attachment) return {};
  if (decoder.type() == MessageType::kExported) return exported(decoder, std::move(fds));
  // WITHDRAWN: larderd has closed the memory, so the engine may free it now.
  if (state_ == State::kLeaving) state_ = again_ ? State::kNew : State::kRefused;
  changed_.notify_all();
  return {};
}

Status SidecarCopies::exported(protocol::Decoder& decoder, std::vector<Fd> fds) {
  protocol::Exported answer{};
  std::string text;
  if (!decoder.read(answer) ||
      !decoder.read_text(answer.text_bytes, protocol::kMaxTransferTextBytes, text))
    return {Code::kInvalidArgument, "EXPORTED is too short"};
  if (answer.region_bytes != 0) {
    if (fds.size() != 1) return {Code::kInvalidArgument, "EXPORTED brought no transfer region"};
    Result<std::unique_ptr<CopyFlags>> flags =
        CopyFlags::open(std::move(fds.front()), answer.region_bytes);
    if (!flags.ok()) return flags.status();
    flags_ = std::move(*flags);
  }
  if (state_ != State::kAsked || awaited_ == 0) return {};
  --awaited_;
  // One refused allocation ends the whole: a chunk has pages in all of them.
  if (answer.reason != 0) {
    state_ = State::kRefused;
    log_.add("warning", "larderd does not copy for this engine, which does so itself (" +
                            in_words({static_cast<TransferReason>(answer.reason), text}) + ")");
    return {};
  }
  if (awaited_ != 0 || flags_ == nullptr) return {};
  state_ = State::kOpen;
  differences_ = 0;
  // Only after the last EXPORTED: a copy may name a page of any allocation.
  open_ = std::make_shared<const Open>(Open{session_, exported_, flags_});
  log_.add("info", "larderd copies for this engine: larderd has opened " +
                       std::to_string(exported_.ranges().size()) + " allocations");
  return {};
}

void SidecarCopies::lost(const Attachment& attachment) {
  const Lock lock(mutex_);
  if (session_ != &attachment) return;
  session_ = nullptr;
  open_.reset();
  flags_.reset();  // a thread that waits for a flag keeps its own reference
  state_ = State::kNew;
  changed_.notify_all();
}

void SidecarCopies::withdraw(bool again) {
  open_.reset();
  state_ = State::kLeaving;
  again_ = again;
  session_->outbox().send(Encoder(MessageType::kWithdraw, 0).append(protocol::Withdraw{}).packet());
}

Status SidecarCopies::leave(std::chrono::milliseconds wait) {
  Lock lock(mutex_);
  asleep_ = true;
  // The running probe is void. The end of the probe is awaited below, since the probe reads a
  // page.
  if (state_ == State::kLooking) state_ = State::kNew;
  if (state_ == State::kOpen || state_ == State::kAsked) withdraw(true);
  if (changed_.wait_for(lock, wait, [this] { return state_ != State::kLeaving && looking_ == 0; }))
    return {};
  return {Code::kDeadlineExceeded, "larderd has not let go of the KV memory yet"};
}

void SidecarCopies::back() {
  const Lock lock(mutex_);
  asleep_ = false;
}

void SidecarCopies::mistrust(const Open& open, const TransferRefusal& why, bool again) {
  const Lock lock(mutex_);
  if (open_.get() != &open) return;  // another thread was first
  if (again) {
    log_.add("info", "larderd's copies for this engine end for now (" + in_words(why) + ")");
  } else {
    log_.add("error",
             "larderd copies no more for this engine in this session (" + in_words(why) + ")");
    tell_why(why);
  }
  withdraw(again);
}

// Sent under the mutex, like WITHDRAW and EXPORT, so the numbers of the pieces match the memory
// that larderd has open when COPY arrives.
bool SidecarCopies::send_copy(const Open& open, const protocol::Copy& head,
                              const std::vector<std::uint64_t>& pieces) {
  Encoder message(MessageType::kCopy, 0);
  message.append(head).append_all(std::span<const std::uint64_t>(pieces));
  const Lock lock(mutex_);
  return open_.get() == &open &&
         session_->outbox().send(message.packet());  // mutation: copy-numbering
}

Result<std::uint64_t> SidecarCopies::ask(Attachment& attachment, CopyVerb verb,
                                         const protocol::SlotRef& ref,
                                         const copy::PieceList& list) {
  const std::shared_ptr<const Open> open = current();
  // A load may still use the attachment of an earlier session, which larderd's copies do not
  // serve.
  if (open == nullptr || open->attachment != &attachment ||
      list.pieces.size() > protocol::kMaxPiecesPerCopy)
    return Status(Code::kUnavailable, "larderd does not copy");
  std::vector<std::uint64_t> pieces;
  pieces.reserve(list.pieces.size());
  for (const std::byte* page : list.pieces) {
    pieces.push_back(page == nullptr ? protocol::kNoPiece
                                     : open->pages.piece(page, list.piece_bytes));
    if (page != nullptr && pieces.back() == protocol::kNoPiece)
      return Status(Code::kOutOfRange, "a page is in no exported memory");
  }
  // larderd does not see the engine's streams, so the engine waits for the fence.
  if (list.after != nullptr)
    if (Status status = list.after->wait(); !status.ok()) return status;
  // Checked after the wait, which has no bound: the memory may have gone meanwhile.
  if (const Status there = exporter_.still_there(open->pages);
      !there.ok()) {  // mutation: memory-check-late
    // Memory that went without a notice is a matter of the engine, and is exported anew. Other
    // failures end larderd's copies.
    const bool gone = there.code() == Code::kNotFound;
    mistrust(*open, {gone ? TransferReason::kNotVerified : TransferReason::kFailed, there.text()},
             gone);
    return Status(Code::kUnavailable, "the memory that was exported is not known to be there");
  }
  const std::optional<std::uint32_t> flag = open->flags->take();
  // The engine copies instead, in the same call.
  if (!flag) return Status(Code::kResourceExhausted, "too many copies at once");
  bool sent = false;
  try {
    sent = send_copy(*open,
                     {static_cast<std::uint32_t>(verb), *flag, ref.slot,
                      static_cast<std::uint32_t>(pieces.size()), ref.generation},
                     pieces);
  } catch (...) {
    open->flags->give_back(*flag);
    throw;
  }
  if (!sent) {
    open->flags->give_back(*flag);
    return Status(Code::kUnavailable, "the session is lost, or has exported other memory by now");
  }
  Result<std::uint64_t> root = open->flags->wait(*flag);
  if (root.status().code() == Code::kUnavailable)
    mistrust(*open, {TransferReason::kFailed, root.status().text()},
             false);  // mutation: copy-ended-told
  return root;
}

// Digests the pages with the engine's own kernels; larderd's root alone proves nothing. For a null
// piece only the slot's table is checked.
Status SidecarCopies::verify(std::uint64_t root, std::span<const std::byte> slot,
                             const copy::PieceList& list) const {
  const std::uint64_t payload_bytes = list.pieces.size() * list.piece_bytes;
  std::vector<std::uint64_t> table(list.pieces.size() *
                                   protocol::units_per_piece(list.piece_bytes));
  // The slot may have been handed on, which is no fault of larderd's copy.
  if (!copy::verified_digests(slot, payload_bytes, root, table).ok())
    return {Code::kNotFound, "the slot has other bytes by now"};
  std::vector<std::uint64_t> seen = table;
  if (Status status = own_.digests({list.pieces, list.piece_bytes, nullptr}, seen); !status.ok())
    return status;
  return seen == table
             ? Status()
             : Status(Code::kDataLoss, "the pages do not have the bytes that larderd copied");
}

Result<std::uint64_t> SidecarCopies::store(Attachment& attachment, const protocol::SlotRef& ref,
                                           const copy::PieceList& from, std::span<std::byte> slot) {
  const std::shared_ptr<const Open> open = current();
  Result<std::uint64_t> root = ask(attachment, CopyVerb::kStore, ref, from);
  if (root.ok()) {
    const Status verified = verify(*root, slot, from);
    if (verified.ok()) {
      differences_ = 0;
      return root;
    }
    if (verified.code() == Code::kDataLoss && open && ++differences_ >= kMostDifferences)
      mistrust(*open, {TransferReason::kNotVerified, verified.text()}, false);
  }
  return store_by_itself(attachment, own_, from, slot);
}

Status SidecarCopies::load(Attachment& attachment, const protocol::SlotRef& ref, std::uint64_t root,
                           std::span<const std::byte> slot, const copy::PieceList& to) {
  const std::shared_ptr<const Open> open = current();
  if (ask(attachment, CopyVerb::kLoad, ref, to).ok()) {
    const Status verified = verify(root, slot, to);
    if (verified.ok()) return {};
    if (verified.code() == Code::kDataLoss && open)
      mistrust(*open, {TransferReason::kNotVerified, verified.text()}, false);
  }
  return own_.load(slot, root, to);
}

}  // namespace larder::client
