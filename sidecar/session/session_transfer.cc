// The messages about copies by larderd: EXPORT, WITHDRAW, COPY.
#include <algorithm>

#include "shim/base/utf8.h"
#include "shim/protocol/transfer_messages.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/session/session_protocol.h"

namespace larder::session {

using protocol::Decoder;
using protocol::Encoder;
using protocol::MemoryKind;
using protocol::MessageType;
using protocol::TransferReason;

namespace {

Status malformed(const char* message, const std::string& why) {
  return {Code::kInvalidArgument, std::string(message) + ": " + why};
}

// A legacy handle (cudaIpcMemHandle) is 64 bytes in the packet. A handle of cuMem memory is a
// descriptor, and descriptors come in the order of their ranges.
Result<std::vector<copy::MemoryHandle>> handles_of(
    const std::vector<protocol::ExportedRange>& ranges, std::vector<Fd>& fds) {
  std::vector<copy::MemoryHandle> handles;
  std::size_t next = 0;
  for (const protocol::ExportedRange& range : ranges) {
    copy::MemoryHandle& handle = handles.emplace_back();
    handle.kind = static_cast<MemoryKind>(range.kind);
    handle.size_bytes = range.bytes;
    std::copy(std::begin(range.handle), std::end(range.handle), handle.bytes.begin());
    // A piece is a range number and an offset in one 64-bit word; a larger offset would not fit.
    if (range.bytes == 0 || range.bytes >> protocol::kPieceOffsetBits != 0)
      return malformed("EXPORT", std::to_string(range.bytes) + " bytes are no allocation");
    if (handle.kind != MemoryKind::kHandle && handle.kind != MemoryKind::kDescriptor)
      return malformed("EXPORT", "memory of kind " + std::to_string(range.kind) + " is unknown");
    if (handle.kind != MemoryKind::kDescriptor) continue;
    if (next == fds.size()) return malformed("EXPORT", "a descriptor is missing");
    handle.fd = std::move(fds[next++]);
  }
  // Extra descriptors close with `fds`; the session ends with the fault.
  if (next != fds.size()) return malformed("EXPORT", "a descriptor that belongs to no allocation");
  return handles;
}

}  // namespace

Result<Reply> SessionProtocol::export_memory(Decoder& decoder, std::vector<Fd> fds) {
  protocol::Export head{};
  std::vector<protocol::ExportedRange> ranges;
  std::string text;
  if (!decoder.read(head)) return malformed("EXPORT", "shorter than its fixed part");
  if (transfers_ == nullptr)
    return Status(Code::kUnsupported, "EXPORT: this larderd does not copy itself");
  if (!decoder.read_all(head.count, protocol::kMaxExportsPerMessage, ranges) ||
      !decoder.read_text(head.text_bytes, protocol::kMaxTransferTextBytes, text))
    return malformed("EXPORT", "count or text is over the limit or the packet");
  // The engine cannot export and copies by itself. The reason is for /v1/status and the log only.
  if (head.reason != 0) {
    if (head.count != 0 || !fds.empty())
      return malformed("EXPORT", "memory, and a reason against an export");
    const auto reason = static_cast<TransferReason>(head.reason);
    base::log_from(log_source(facts_.peer, "EXPORT"), base::LogLevel::kInfo,
                   "session " + std::to_string(facts_.number) + " copies by itself (" +
                       std::string(protocol::transfer_reason_name(reason)) +
                       "): " + clean_text(text));
    transfers_->declined(facts_.number, {reason, clean_text(text)});
    return Reply{};
  }
  if (ranges.empty()) return malformed("EXPORT", "no memory");
  Result<std::vector<copy::MemoryHandle>> handles = handles_of(ranges, fds);
  if (!handles.ok()) return handles.status();
  // The device is known by its UUID: device numbers differ between containers.
  copy::DeviceId device{};
  std::copy(std::begin(head.device), std::end(head.device), device.begin());
  if (Status opened = transfers_->open(facts_.number, decoder.request(), head.process_number,
                                       device, *std::move(handles));
      !opened.ok())
    return Status(opened.code(), "EXPORT: " + opened.text());
  return Reply{};
}

Result<Reply> SessionProtocol::withdraw(Decoder& decoder) {
  protocol::Withdraw withdraw{};
  if (!decoder.read(withdraw)) return malformed("WITHDRAW", "shorter than its fixed part");
  if (transfers_ == nullptr)
    return Status(Code::kUnsupported, "WITHDRAW: this larderd does not copy itself");
  if (Status begun = transfers_->withdraw(facts_.number, decoder.request()); !begun.ok())
    return Status(begun.code(), "WITHDRAW: " + begun.text());
  return Reply{};
}

// A slot that changed in the meantime is no fault of the engine: the flag reports that no byte was
// copied.
Result<Reply> SessionProtocol::copy(Decoder& decoder) {
  protocol::Copy asked{};
  transfer::CopyOrder order;
  if (!decoder.read(asked)) return malformed("COPY", "shorter than its fixed part");
  if (transfers_ == nullptr)
    return Status(Code::kUnsupported, "COPY: this larderd does not copy itself");
  if (!decoder.read_all(asked.count, protocol::kMaxPiecesPerCopy, order.pieces))
    return malformed("COPY",
                     "count " + std::to_string(asked.count) + " is over the limit or the packet");
  order.verb = static_cast<protocol::CopyVerb>(asked.verb);
  if (order.verb != protocol::CopyVerb::kStore && order.verb != protocol::CopyVerb::kLoad)
    return malformed("COPY", "verb " + std::to_string(asked.verb) + " is unknown");
  // A store needs a grant of this session; a load needs a committed chunk of any session.
  const protocol::SlotRef slot{asked.slot, 0, asked.generation};
  const std::optional<protocol::EntryView> chunk =
      order.verb == protocol::CopyVerb::kStore
          ? store_.sessions().granted_chunk(facts_.number, slot)
          : store_.committed_chunk(slot.slot, slot.generation);
  order.flag = asked.flag;
  if (chunk) {
    // Checked against the chunk in the index: the engine's count alone could make larderd write
    // past the slot.
    if (chunk->piece_bytes == 0 || chunk->payload_bytes != order.pieces.size() * chunk->piece_bytes)
      return malformed("COPY",
                       std::to_string(asked.count) + " pieces differ from the chunk's pieces");
    order.generation = slot.generation;
    order.offset_bytes = chunk->offset_bytes;
    order.piece_bytes = chunk->piece_bytes;
    order.root = chunk->root;
  } else {
    // Without pieces the copy threads only end the flag, and the engine stops waiting.
    order.pieces.clear();
  }
  if (Status begun = transfers_->copy(facts_.number, std::move(order)); !begun.ok())
    return Status(begun.code(), "COPY: " + begun.text());
  return Reply{};
}

// Refuses COMMIT and DISOWN of a slot while larderd copies into the slot: a commit would publish
// incomplete bytes, a disown would free a slot that is being written.
Status SessionProtocol::release_copies(MessageType type, std::uint32_t slot,
                                       std::uint64_t generation) {
  if (transfers_ == nullptr || transfers_->release(generation)) return {};
  return {Code::kFailedPrecondition,
          std::string(type == MessageType::kCommit ? "COMMIT" : "DISOWN") + ": slot " +
              std::to_string(slot) + " is still being copied into, as this session has asked"};
}

std::vector<std::byte> transfer_packet(const transfer::Answer& answer) {
  Encoder encoder(answer.withdrawn ? MessageType::kWithdrawn : MessageType::kExported,
                  answer.request);
  if (answer.withdrawn) {
    encoder.append(protocol::Withdraw{});
  } else {
    // The text is from CUDA or larderd, and has no bound of its own.
    const std::string text(cut_text(answer.refusal.text, protocol::kMaxTransferTextBytes));
    encoder
        .append(protocol::Exported{static_cast<std::uint32_t>(answer.refusal.reason),
                                   static_cast<std::uint32_t>(text.size()),
                                   answer.with_region ? transfer::TransferMemory::size_bytes() : 0})
        .append_text(text);
  }
  const auto packet = encoder.packet();
  return {packet.begin(), packet.end()};
}

}  // namespace larder::session
