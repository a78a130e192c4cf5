// The protocol decoder: every message type read by its grammar, from arbitrary bytes.
//
// Promises: no byte beyond the packet is read; a count over its limit is refused; the read values
// stood in the packet (written again they give the same bytes); a text for people is short and
// printable.
#include "shim/protocol/codec.h"
#include "shim/protocol/transfer_messages.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using protocol::MessageType;

void check_text(const protocol::ShortText& text) {
  const std::string shown = protocol::short_text(text);
  must(shown.size() <= protocol::kMaxNameBytes, "a name is bounded");
  must(clean_text(shown) == shown, "a name is printable");
}

// The read values, written again, are the start of the packet.
class Echo {
 public:
  Echo(const protocol::Decoder& decoder, std::span<const std::byte> packet)
      : packet_(packet), encoder_(decoder.type(), decoder.request()) {}

  template <typename T>
  void add(const T& value) {
    encoder_.append(value);
  }
  template <typename T>
  void add_all(const std::vector<T>& values) {
    encoder_.append_all(std::span<const T>(values));
  }
  void add_text(const std::string& text) { encoder_.append_text(text); }
  void compare() {
    // the flags and length may differ
    constexpr std::size_t kHeader = sizeof(protocol::MessageHeader);
    const std::span<const std::byte> again = encoder_.packet();
    must(again.size() <= packet_.size(), "no more was read than there is");
    must(std::equal(again.begin() + kHeader, again.end(), packet_.begin() + kHeader),
         "the read values stand in the packet");
  }

 private:
  std::span<const std::byte> packet_;
  protocol::Encoder encoder_;
};

// A head with a count, then so many records.
template <typename Head, typename Record>
void read_list(protocol::Decoder& decoder, Echo& echo, std::size_t limit) {
  Head head{};
  std::vector<Record> records;
  if (!decoder.read(head)) return;
  echo.add(head);
  if (!decoder.read_all(head.count, limit, records)) return;
  must(records.size() == head.count && records.size() <= limit,
       "a list has its announced number of records");
  echo.add_all(records);
}

// A head with a length, then so much text.
template <typename Head>
void read_texted(protocol::Decoder& decoder, Echo& echo) {
  Head head{};
  std::string text;
  if (!decoder.read(head)) return;
  echo.add(head);
  if (!decoder.read_text(head.text_bytes, protocol::kMaxPacketBytes, text)) return;
  must(text.size() == head.text_bytes, "a text has its announced length");
  echo.add_text(text);
}

void read_open(protocol::Decoder& decoder, Echo& echo) {
  protocol::OpenNamespace open{};
  if (!decoder.read(open)) return;
  echo.add(open);
  check_text(open.model);
  std::vector<protocol::GroupLayout> groups;
  if (!decoder.read_all(open.group_count, protocol::kMaxGroups, groups)) return;
  echo.add_all(groups);
  std::string text;
  if (!decoder.read_text(open.text_bytes, protocol::kMaxFingerprintBytes, text)) return;
  must(text.size() <= protocol::kMaxFingerprintBytes, "a fingerprint is bounded");
  echo.add_text(text);
  protocol::NamespaceShards shards{};
  std::vector<std::uint64_t> parts;
  if (!decoder.read(shards)) return;
  echo.add(shards);
  if (decoder.read_all(shards.part_words, protocol::kMaxPartWords, parts)) echo.add_all(parts);
}

// Chunks, and then their parents.
void read_reserve(protocol::Decoder& decoder, Echo& echo) {
  protocol::Reserve head{};
  std::vector<protocol::BlockHash> hashes, parents;
  if (!decoder.read(head)) return;
  echo.add(head);
  if (!decoder.read_all(head.count, protocol::kMaxKeysPerReserve, hashes)) return;
  must(hashes.size() == head.count, "a list has its announced number of records");
  echo.add_all(hashes);
  if (!decoder.read_all(head.parents, protocol::kMaxKeysPerReserve, parents)) return;
  must(parents.size() == head.parents, "a list has its announced number of records");
  echo.add_all(parents);
}

// Memory, and then the reason against an export.
void read_export(protocol::Decoder& decoder, Echo& echo) {
  protocol::Export head{};
  std::vector<protocol::ExportedRange> ranges;
  std::string text;
  if (!decoder.read(head)) return;
  echo.add(head);
  if (!decoder.read_all(head.count, protocol::kMaxExportsPerMessage, ranges)) return;
  must(ranges.size() == head.count, "a list has its announced number of records");
  echo.add_all(ranges);
  if (!decoder.read_text(head.text_bytes, protocol::kMaxTransferTextBytes, text)) return;
  must(text.size() == head.text_bytes && text.size() <= protocol::kMaxTransferTextBytes,
       "a text has its announced length, and bounded");
  echo.add_text(text);
}

template <typename T>
void read_fixed(protocol::Decoder& decoder, Echo& echo) {
  T value{};
  if (!decoder.read(value)) return;
  echo.add(value);
  if constexpr (std::is_same_v<T, protocol::Hello>) check_text(value.engine);
}

void read_body(protocol::Decoder& decoder, Echo& echo) {
  switch (decoder.type()) {
    case MessageType::kHello: return read_fixed<protocol::Hello>(decoder, echo);
    case MessageType::kWelcome: return read_fixed<protocol::Welcome>(decoder, echo);
    case MessageType::kAttached:
      return read_list<protocol::Attached, protocol::SlotRef>(decoder, echo,
                                                              protocol::kMaxGrantsPerMessage);
    case MessageType::kOpenNamespace: return read_open(decoder, echo);
    case MessageType::kNamespace: return read_texted<protocol::Namespace>(decoder, echo);
    case MessageType::kReserve: return read_reserve(decoder, echo);
    case MessageType::kGranted:
      return read_list<protocol::Granted, protocol::Grant>(decoder, echo,
                                                           protocol::kMaxKeysPerReserve);
    case MessageType::kCommit:
      return read_list<protocol::SlotList, protocol::CommitRecord>(decoder, echo,
                                                                   protocol::kMaxGrantsPerMessage);
    case MessageType::kDisown:
    case MessageType::kBad:
    case MessageType::kAskGrants:
    case MessageType::kStillWriting:
      return read_list<protocol::SlotList, protocol::SlotRef>(decoder, echo,
                                                              protocol::kMaxGrantsPerMessage);
    case MessageType::kAct:
      return read_list<protocol::Act, protocol::BlockHash>(decoder, echo, protocol::kMaxKeysPerAct);
    case MessageType::kFetch:
      return read_list<protocol::Fetch, protocol::BlockHash>(decoder, echo,
                                                             protocol::kMaxKeysPerFetch);
    case MessageType::kFetched: return read_fixed<protocol::Fetched>(decoder, echo);
    case MessageType::kFetchEnd: return read_fixed<protocol::EndFetch>(decoder, echo);
    case MessageType::kProbe:
      return read_list<protocol::Probe, protocol::BlockHash>(decoder, echo,
                                                             protocol::kMaxKeysPerProbe);
    case MessageType::kProbed:
      read_fixed<protocol::Probed>(decoder, echo);
      return read_fixed<protocol::ProbedEach>(decoder, echo);  // in its place
    case MessageType::kActed: return read_fixed<protocol::Acted>(decoder, echo);
    case MessageType::kDropNamespace: return read_fixed<protocol::DropNamespace>(decoder, echo);
    case MessageType::kCloseNamespace: return read_fixed<protocol::CloseNamespace>(decoder, echo);
    case MessageType::kError: return read_texted<protocol::Error>(decoder, echo);
    case MessageType::kExport: return read_export(decoder, echo);
    case MessageType::kExported: return read_texted<protocol::Exported>(decoder, echo);
    case MessageType::kWithdraw:
    case MessageType::kWithdrawn: return read_fixed<protocol::Withdraw>(decoder, echo);
    case MessageType::kCopy:
      return read_list<protocol::Copy, std::uint64_t>(decoder, echo, protocol::kMaxPiecesPerCopy);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // libFuzzer's copy has this size
  const std::span<const std::byte> packet(reinterpret_cast<const std::byte*>(data), size);
  Result<protocol::Decoder> decoder = protocol::Decoder::open(packet);
  if (!decoder.ok()) {
    must(decoder.status().code() == Code::kInvalidArgument && !decoder.status().text().empty(),
         "a refusal is named");
    return 0;
  }
  Echo echo(*decoder, packet);
  read_body(*decoder, echo);
  echo.compare();
  return 0;
}
