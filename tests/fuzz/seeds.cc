// Writes the first inputs of every corpus: DIRECTORY/TARGET/seed-NAME. Findings of fuzzing lie
// beside them.
//
// A target reads its input in the order of its source; this program writes the same order.
#include "tests/fuzz/seeds.h"

#include <string>

#include "shim/protocol/codec.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/ops.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using protocol::Encoder;
using protocol::MessageType;

std::string text_of(Encoder& encoder) {
  const auto packet = encoder.packet();
  return {reinterpret_cast<const char*>(packet.data()), packet.size()};
}

void protocol_seeds() {
  protocol::Hello hello{};
  hello.version_major = 1;
  hello.engine = protocol::make_short_text("vllm 0.32.0 worker 0");
  write("protocol", "hello", text_of(Encoder(MessageType::kHello, 1).append(hello)));
  protocol::Welcome welcome{};
  welcome.version_major = 1;
  write("protocol", "welcome", text_of(Encoder(MessageType::kWelcome, 1).append(welcome)));
  protocol::OpenNamespace open{};
  open.group_count = 2;
  open.text_bytes = 5;
  open.model = protocol::make_short_text("llama");
  write("protocol", "open_namespace",
        text_of(Encoder(MessageType::kOpenNamespace, 2)
                    .append(open)
                    .append(protocol::GroupLayout{4096, 1, 0})
                    .append(protocol::GroupLayout{8192, 2, 0})
                    .append_text("a: 1\n")));
  write("protocol", "namespace",
        text_of(Encoder(MessageType::kNamespace, 2)
                    .append(protocol::Namespace{1, 4})
                    .append_text("text")));
  write("protocol", "reserve",
        text_of(Encoder(MessageType::kReserve, 3)
                    .append(protocol::Reserve{1, 0, 0, 2, 0})
                    .append(protocol::BlockHash{1, 1})
                    .append(protocol::BlockHash{2, 2})));
  write("protocol", "reserve_with_parents",
        text_of(Encoder(MessageType::kReserve, 3)
                    .append(protocol::Reserve{1, 0, 0, 2, 2})
                    .append(protocol::BlockHash{1, 1})
                    .append(protocol::BlockHash{2, 2})
                    .append(protocol::BlockHash{})
                    .append(protocol::BlockHash{1, 1})));
  write("protocol", "granted",
        text_of(Encoder(MessageType::kGranted, 3)
                    .append(protocol::Granted{1, 0})
                    .append(protocol::Grant{0, 1, 1000, 4096})));
  write("protocol", "commit",
        text_of(Encoder(MessageType::kCommit, 0)
                    .append(protocol::SlotList{1, 0})
                    .append(protocol::CommitRecord{1, 0, 1000, 5})));
  for (const auto& [name, type] :
       {std::pair("attached", MessageType::kAttached), std::pair("disown", MessageType::kDisown),
        std::pair("bad", MessageType::kBad)})
    write("protocol", name,
          text_of(Encoder(type, 0)
                      .append(protocol::SlotList{1, 0})
                      .append(protocol::SlotRef{1, 0, 1000})));
  write("protocol", "close",
        text_of(Encoder(MessageType::kCloseNamespace, 0).append(protocol::CloseNamespace{2, 1})));
  write("protocol", "drop",
        text_of(Encoder(MessageType::kDropNamespace, 0).append(protocol::DropNamespace{1, 0})));
  write("protocol", "error",
        text_of(Encoder(MessageType::kError, 0).append(protocol::Error{1, 3}).append_text("why")));
}

// Messages about lower tiers.
void lower_tier_seeds() {
  write("protocol", "fetch",
        text_of(Encoder(MessageType::kFetch, 4)
                    .append(protocol::Fetch{1, 250, 1, 0})
                    .append(protocol::BlockHash{1, 1})));
  write("protocol", "look",
        text_of(Encoder(MessageType::kProbe, 5)
                    .append(protocol::Probe{1, 250, 1, 0})
                    .append(protocol::BlockHash{1, 1})));
  write(
      "protocol", "looked",
      text_of(
          Encoder(MessageType::kProbed, 5).append(protocol::Probed{1, 1, 1'000'000, 4096, 99, 0})));
  write("protocol", "look_each",
        text_of(Encoder(MessageType::kProbe, 5)
                    .append(protocol::Probe{1, 250, 1, protocol::kProbeEach})
                    .append(protocol::BlockHash{1, 1})));
  write("protocol", "looked_each",
        text_of(Encoder(MessageType::kProbed, 5)
                    .append(protocol::Probed{1, 1, 1'000'000, 4096, 99, 0})
                    .append(protocol::ProbedEach{{1}})));
  write("protocol", "fetched",
        text_of(Encoder(MessageType::kFetched, 4).append(protocol::Fetched{1, 2, 4096, 99, 0})));
  write("protocol", "fetch_end",
        text_of(Encoder(MessageType::kFetchEnd, 0).append(protocol::EndFetch{4, 0})));
}

std::string open_op(int who, int pieces = 1, const std::string& text = "a: 1\n") {
  using namespace larder::fuzz::session_op;
  return u8({kOpen | who << 4, 1, 1}) + pack(std::uint16_t{4096}) +
         u8({pieces, static_cast<int>(text.size())}) + text;
}
std::string reserve_op(int who, int handle, int first, int count) {
  using namespace larder::fuzz::session_op;
  std::string op = u8({kReserve | who << 4, handle, 0, 0, count});
  for (int i = 0; i < count; ++i) op += static_cast<char>(first + i);
  return op;
}

// Chunk first + i behind the i-th parent; 0: a root.
std::string prompt_op(int first, std::initializer_list<int> parents) {
  using namespace larder::fuzz::session_op;
  const int count = static_cast<int>(parents.size());
  std::string op = u8({kReserve, 1, 0, 0, count | 32});
  for (int i = 0; i < count; ++i) op += static_cast<char>(first + i);
  for (const int parent : parents) op += static_cast<char>(parent);
  return op;
}

// The bystander has taken slot 0 at generation 1001.
void session_seeds() {
  using namespace larder::fuzz::session_op;
  const std::string begin = u8({kAttach}) + open_op(0) + reserve_op(0, 1, 1, 3);
  const std::string commits = u8({kCommit, 1, 2, 5, kCommit, 2, 3, 5});
  write("session", "stored", begin + commits);
  write("session", "stored_and_dropped",
        begin + commits + u8({kDrop, 1, kIdle, 1, kSlot, 0, 1, 2, kIdle, 1}));
  // CLOSE_NAMESPACE of the opened namespace, with its chunks dropped, while one of its grants is
  // written; then another in its place.
  write("session", "closed",
        begin + u8({kCommit, 1, 2, 5, kDrop, 193}) + reserve_op(0, 1, 1, 3) +
            open_op(0, 3, "b: 2\n") + reserve_op(0, 1, 1, 3) +
            u8({kCommit, 2, 3, 5, kIdle, 1, kEnd}));
  // A prompt in two steps, longer than the memory; then parents in a circle, and a wrong count.
  write("session", "prompt",
        u8({kAttach}) + open_op(0) + prompt_op(1, {0, 1, 2}) + commits + u8({kCommit, 3, 4, 5}) +
            prompt_op(4, {3, 4, 5, 6, 7, 8, 9, 10, 11}) + u8({kCommit, 4, 5, 5, kIdle, 1}) +
            prompt_op(20, {21, 22, 20, 23}) + prompt_op(30, {2, 3, 4, 5}) +
            u8({kReserve, 1, 0, 0, 1 | 64, 40, kIdle, 1}));
  write("session", "asked_and_answered",
        begin + u8({kIdle, 250, kIdle, 250, kSlot, 2, 1, 2, kIdle, 30, kCommit, 2, 3, 5}));
  write("session", "came_back", begin + u8({kReturn, 1, 1, 2, kSlot, 1, 1, 2, kReturn, 0, kEnd}));
  write("session", "disowned", begin + u8({kSlot, 1, 1, 2, kSlot, 1, 2, 3}));
  write("session", "died_storing", begin + u8({kEnd}));
  write("session", "silent_and_back",
        begin + u8({kSilent, 1, kCommit, 1, 2, 5, kSilent, 0, kCommit, 2, 3, 5}));
  write("session", "two_at_once",
        begin + u8({kAttach | 1 << 4}) + open_op(1) + reserve_op(1, 1, 1, 2) + commits +
            u8({kCommit | 1 << 4, 3, 4, 1}));
  write("session", "evicted_under_holds",
        begin + commits + u8({kHold, 0}) + pack(std::uint16_t{1}) + u8({1, 2}) +
            reserve_op(0, 1, 10, 12) + u8({kIdle, 1}));
  write("session", "larger_chunks",
        begin + commits + u8({kAttach | 1 << 4}) + open_op(1, 3, "b: 2\n") +
            reserve_op(1, 2, 1, 4) + u8({kIdle, 1, kClear}));
  // A verb on the chunks 1 and 9 of the first namespace.
  const auto act = [](protocol::Verb verb) {
    const std::string body = pack(protocol::Act{1, static_cast<std::uint32_t>(verb), 2, 0},
                                  protocol::BlockHash{1, 1}, protocol::BlockHash{9, 1});
    return u8({kBody, 17, 4}) + pack(static_cast<std::uint16_t>(body.size())) + body;
  };
  write("session", "pinned",
        begin + commits + act(protocol::Verb::kPin) + reserve_op(0, 1, 10, 12) +
            act(protocol::Verb::kPrefetch));
  write("session", "unpinned",
        begin + commits + act(protocol::Verb::kPin) + act(protocol::Verb::kUnpin) +
            act(protocol::Verb::kEvict));
  write("session", "kept", begin + commits + act(protocol::Verb::kKeep) + reserve_op(0, 1, 10, 12));
  write("session", "demoted",
        begin + commits + act(protocol::Verb::kDemote) + reserve_op(0, 1, 10, 12));
  const std::string below = u8({kTier, kStoreBelow, 1, 0, 20, kTier, kStoreBelow, 1, 0, 21});
  const std::string fetch = u8({kFetch, 1, 100, 1, 3, 20, 21, 22});
  write("session", "fetched",
        begin + commits + below + fetch +
            u8({kTier, kReadEnds, kTier, kReadEnds, kFetch, 1, 0, 129, kTier, kTicked, 0}));
  write("session", "fetched_late",
        begin + below + fetch +
            u8({kTier, kDeadlineMissed, kIdle, 2, kTier, kTicked, 0, kTier, kReleased, kTier,
                kReadFails}));
  const std::string probe = u8({kFetch, 1, 100, 65, 3, 20, 21, 22});
  write("session", "looked",
        begin + commits + below + probe + u8({kTier, kProbeEnds}) + probe +
            u8({kTier, kProbeFails}) + probe +
            u8({kIdle, 2, kTier, kTicked, 0, kTier, kProbeEnds, kFetch, 1, 0, 66, 1, 20, kEnd}));
  write("session", "fetched_and_dropped",
        begin + below + fetch + fetch + u8({kDrop, 1, kTier, kReadEnds, kIdle, 1, kEnd}));
  // One allocation of four pages by a descriptor; then the grant of slot 1 at generation 1002,
  // copied from the allocation.
  const std::string exported = u8({kTier, kTransfer, kExport, 0, 1, 2 | 16, 4, 4, 0, 1, 1});
  const std::string copied =
      u8({kTier, kTransfer, kCopy, 0, 1, 0, 1, 2, 1, 0}) + pack(std::uint16_t{4096});
  write("session", "copied",
        begin + exported + copied + u8({kTier, kTransfer, kWithdraw, 0, 7}) + commits);
  write("session", "copied_and_disowned",
        begin + exported + copied + u8({kSlot, 1, 1, 2}) + exported + copied + u8({kEnd}));
  write("session", "exported_too_little",
        begin + u8({kTier, kTransfer, kExport, 0, 2, 2 | 16, 4, 2, 1, 4, 0, 1, 1}) + copied);
  write("session", "declined", begin + u8({kTier, kTransfer, kDecline, 0, 12}) + "why" + commits);
  write("session", "not_attached",
        u8({kBody, 6, 0}) + pack(std::uint16_t{0}) + u8({kRaw}) + pack(std::uint16_t{3}) + "abc");
}

void region_seeds() {
  using namespace larder::fuzz::region_op;
  const std::string event = u8({kEvent, 1, 1, 2}) + pack(std::uint64_t{1}) + u8({1}) +
                            pack(std::uint64_t{1000}) + u8({0});
  write("region", "events", event + event + u8({kDrain}) + event + u8({kDrain}));
  write("region", "overrun", u8({kRing}) + pack(std::uint16_t{5000}) + u8({kDrain}));
  write("region", "head_jumps",
        u8({kHead}) + pack(~std::uint64_t{0}) + u8({kDrain, kHead}) + pack(std::uint64_t{3}) +
            u8({kDrain}));
  write("region", "holds_beyond",
        u8({kHoldsUsed}) + pack(~std::uint64_t{0}) + u8({kReserve, 1, kEvict, 2, kIdle}));
  write("region", "held",
        u8({kReserve, 1, kHoldsUsed}) + pack(std::uint64_t{1}) + u8({kHold}) +
            pack(std::uint16_t{0}) + u8({1, 2, kEvict, 10, kIdle}));
  write("region", "silent_holds",
        u8({kHoldsUsed}) + pack(std::uint64_t{1}) + u8({kHold}) + pack(std::uint16_t{0}) +
            u8({0, 1, kSilent, 1, kEvict, 10}));
  write("region", "words",
        u8({kWord}) + pack(std::uint32_t{2}, ~std::uint64_t{0}) + u8({kWord}) +
            pack(std::uint32_t{9000}, std::uint64_t{7}));
}

void namespace_seeds() {
  const std::string keys(2 * 24 + 2, '\1');
  const auto spec = [](const std::string& text, int pieces, const std::string& model) {
    return u8({0, 1}) + pack(std::uint16_t{4096}) + u8({pieces, 1}) + pack(std::uint16_t{256}) +
           u8({static_cast<int>(model.size())}) + model +
           pack(static_cast<std::uint16_t>(text.size())) + text;
  };
  const std::string first = spec("dtype: bfloat16\nlayer: 0\nlayer: 1\n", 2, "llama");
  write("namespace", "one", keys + first);
  write("namespace", "two",
        keys + first +
            spec("dtype: float16\nlayer: 0\nweights: " + std::string(200, 'w') + "\n", 2, "qwen"));
  write("namespace", "odd_texts",
        keys + first + spec("\xff\xfe\"\\:\n::\n\n{}=,\x01", 1, "m\"\n\\x"));
  write("namespace", "wrong_id",
        keys + u8({2, 0, 1}) + pack(std::uint16_t{1}) + u8({0}) + pack(std::uint16_t{2}) + "ab" +
            keys);
}

void index_seeds() {
  const auto patch = [](std::uint16_t at, const std::string& bytes) {
    return pack(at) + u8({static_cast<int>(bytes.size()) - 1}) + bytes;
  };
  const std::string whole = pack(~std::uint32_t{0});
  write("index", "good", whole);
  write("index", "short", pack(std::uint32_t{100}));
  write("index", "counts", whole + patch(40, pack(~std::uint64_t{0}, ~std::uint64_t{0})));
  write("index", "place", whole + patch(4096 + 32, pack(~std::uint64_t{0})));
  write("index", "word", whole + patch(4096, pack(std::uint64_t{3})));
  write("index", "cell", whole + patch(4096 + 8 * 64, pack(~std::uint64_t{0})));
}

void yaml_seeds() {
  write("yaml", "full",
        "pool: a\nsocket: /run/a.sock\nsocket_mode: 0660\nlog_level: info\nmemory:\n  size: 5GiB\n "
        " shm_name: x\n  directory: "
        "/dev/shm\n"
        "  hugepages: prefer\n  hugepage_directory: /h\n  numa: auto\nhttp:\n  listen: "
        "\"[::1]:0\"\n  admin_socket: "
        "/run/a.admin\n");
  write("yaml", "quoted", "socket: \"/a\\\"b\\\\c\"\n");
  write("yaml", "backend",
        "backend:\n  url: rediss://u%40x@[::1]:7000/3\n  ca_file: /ca\n  prefix: kv\n  ttl: 2d\n  "
        "write: popular\n  write_rate: "
        "200MiB\n");
  write("yaml", "backend_socket", "backend: {url: 'unix://u@/run/\"r\\.sock'}\n");
  write("yaml", "anchors", "a: &x 1\nb: *x\n");
  write("yaml", "lists", "memory: [1, 2]\n");
  write("yaml", "two", "pool: a\n---\npool: b\n");
  write("yaml", "flow", "{memory: {size: 1TiB}, pool: 'it''s'}");
  write("yaml", "block", "pool: |\n  a\n  b\nsocket: >-\n  /a\n  b\n");
  write("yaml", "empty", "");
}

namespace resp_op = fuzz::resp_op;

// Commands that wait for a payload, or for a reply of the types of that number.
std::string ask_payload(std::uint16_t bytes) {
  return pack(std::uint8_t{resp_op::kAsk}, std::uint8_t{1}, static_cast<std::uint16_t>(bytes - 1),
              std::uint8_t{1});
}
std::string ask_small(std::uint8_t types) {
  return pack(std::uint8_t{resp_op::kAsk}, std::uint8_t{0}, types, std::uint8_t{1});
}
std::string reply(const std::string& bytes) {
  return u8({resp_op::kBytes, static_cast<int>(bytes.size())}) + bytes;
}
std::string payload(std::uint16_t bytes) {
  return pack(std::uint8_t{resp_op::kPayload}, bytes);
}

void resp_seeds() {
  write("resp", "payloads", ask_payload(300) + ask_payload(5) + payload(300) + payload(5));
  write("resp", "error_between",
        ask_payload(300) + ask_payload(300) + ask_small(1) + payload(300) + u8({resp_op::kError}) +
            reply("+OK\r\n"));
  write("resp", "small_pieces",
        u8({resp_op::kPieces, 2, 0, 1}) + ask_payload(40) + ask_small(0) + payload(40) +
            reply("$3\r\nabc\r\n"));
  write(
      "resp", "cancelled",
      ask_payload(300) + ask_payload(20) + u8({resp_op::kCancel, 0}) + payload(300) + payload(20));
  write("resp", "half_cancelled",
        ask_payload(300) + reply("$300\r\nabc") + u8({resp_op::kCancel, 0}));
  write("resp", "too_long", ask_payload(10) + payload(11));
  write("resp", "shorter_and_nil",
        ask_payload(10) + ask_payload(10) + payload(3) + reply("$-1\r\n"));
  write("resp", "nested", ask_small(3) + reply("*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n:3\r\n"));
  write("resp", "nested_deep", ask_small(3) + reply("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+x\r\n"));
  write("resp", "huge", ask_small(3) + reply("*2000000000\r\n"));
  write("resp", "wrong_type", ask_small(1) + ask_small(2) + reply(":1\r\n"));
  write("resp", "unasked", reply("+OK\r\n") + ask_small(1));
}

namespace peer_op = fuzz::peer_op;

void peer_seeds() {
  const std::string hello = u8({peer_op::kFrame, 1, 0}), look = u8({peer_op::kFrame, 3, 2}),
                    get = u8({peer_op::kFrame, 5, 2}), done = u8({peer_op::kFrame, 4, 2}),
                    held = u8({peer_op::kAnswer, 0}), nothing = u8({peer_op::kAnswer, 3});
  write("peer", "look_get_done", hello + look + held + get + get + done);
  write("peer", "get_alone", hello + get + held + get);
  write("peer", "not_held", hello + get + u8({peer_op::kAnswer, 2}) + look + nothing);
  write("peer", "no_hello", look + get + done + u8({peer_op::kFrame, 2, 0}) + look);
  write("peer", "ends_while_held", hello + look + held + get + u8({peer_op::kClose}));
  write("peer", "ends_while_asked", hello + look + u8({peer_op::kClose}) + held);
  write("peer", "small_pieces",
        u8({peer_op::kPieces, 2, 0, 3, 0}) + hello + look + held + get + held + get);
  write("peer", "time",
        hello + look + held + u8({peer_op::kTime, 255}) + get + held +
            u8({peer_op::kTime, 255, peer_op::kTime, 255}));
  write("peer", "bytes",
        hello + u8({peer_op::kBytes, 14}) + "*1\r\n$4\r\nPING" + u8({peer_op::kBytes, 2}) + "\r\n");
  write("peer", "huge",
        u8({peer_op::kBytes, 10}) + "*100000000" + u8({peer_op::kBytes, 2}) + "\r\n");
  write("peer", "replies",
        u8({peer_op::kReply, 7, 3}) + std::string(3, '\1') + u8({6}) + "larder" + u8({1}) + "1" +
            u8({4}) + "chat");
}

// Two bytes first: the limits, whether admin verbs answer, chunks are taken and Host is checked;
// the number of bytes that arrive at once.
void http_seeds() {
  write("http", "metrics", "2~GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  write("http", "status", "2!GET /v1/status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  write("http", "drop",
        "2~POST /v1/drop?namespace=beef HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  write("http", "drop_form",
        "2~POST /v1/drop HTTP/1.1\r\nHost: a\r\nContent-Type: "
        "application/x-www-form-urlencoded\r\nContent-Length: "
        "14\r\n\r\nnamespace=beef");
  write("http", "refused", "1~POST /v1/clear HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
  write("http", "origin", "2~POST /v1/clear HTTP/1.1\r\nHost: a\r\nOrigin: http://x\r\n\r\n");
  write("http", "chunked",
        "2~POST /v1/clear HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  write("http", "range",
        "2~GET /metrics HTTP/1.1\r\nHost: a\r\nRange: bytes=0-5,7-,-3\r\nAccept-Encoding: gzip, "
        "br\r\n\r\n");
  write("http", "multipart",
        "2~POST /v1/drop HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; "
        "boundary=x\r\nContent-Length: 66\r\n\r\n"
        "--x\r\nContent-Disposition: form-data; name=\"namespace\"\r\n\r\nbeef\r\n--x--\r\n");
  write("http", "body_over",
        "1~POST /v1/clear HTTP/1.1\r\nHost: a\r\nContent-Length: 400\r\n\r\n" +
            std::string(400, 'x'));
  const std::string chunks =
      "POST /mutate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  write("http", "chunks",
        "5\2" + chunks + "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: x\r\n\r\nGET");
  write("http", "chunks_over",
        "5\7" + chunks + "7f\r\n" + std::string(127, 'x') + "\r\n2\r\nab\r\n0\r\n\r\n");
  write("http", "chunk_line", "5~" + chunks + "1;" + std::string(300, 'x') + "\r\na\r\n0\r\n\r\n");
  write("http", "chunk_trailer", "5~" + chunks + "0\r\n" + std::string(300, 'x') + "\r\n\r\n");
  write("http", "two_lengths",
        "5~POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  write("http", "options", "0~OPTIONS * HTTP/1.0\r\n\r\n");
  write("http", "no_host", "2~GET /metrics HTTP/1.1\r\n\r\n");
  write("http", "two_hosts", "2~GET /metrics HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n");
  write("http", "address", ":~GET /metrics HTTP/1.1\r\nHost: [::1%eth0]:9464\r\n\r\n");
  write("http", "service", ":~GET /metrics HTTP/1.1\r\nHost: larder.ml.svc:9464\r\n\r\n");
  write("http", "proxied",
        ":~GET /v1/status HTTP/1.1\r\nHost: api\r\nAccept-Encoding: gzip\r\n"
        "X-Forwarded-Uri: /api/v1/namespaces/a/pods/b:9464/proxy/v1/status\r\n\r\n");
}

}  // namespace

namespace plugin_op = fuzz::plugin_op;

void plugin_seeds() {
  const std::string begun = u8({plugin_op::kConnect, plugin_op::kReady, 1}),
                    put = u8({plugin_op::kPut, 1}), get = u8({plugin_op::kGet, 1}),
                    probe = u8({plugin_op::kProbe, 1}), serve = u8({plugin_op::kServe}),
                    late = u8({plugin_op::kTime, 50}), end = u8({plugin_op::kHangUp});
  write("plugin", "put_get", begun + put + serve + get + serve);
  write("plugin", "probe", begun + put + serve + probe + u8({plugin_op::kFound, 0, 0, 1}));
  write("plugin", "found_by_done", begun + probe + u8({plugin_op::kDone, 0, 0}));
  write("plugin", "unknown_ticket", begun + get + u8({plugin_op::kDone, 9, 0}));
  write("plugin", "twice", begun + put + u8({plugin_op::kDone, 0, 0, plugin_op::kDone, 0, 0}));
  write("plugin", "exists", begun + put + u8({plugin_op::kDone, 0, 2}) + serve + serve + serve);
  write("plugin", "scribbled",
        begun + put + serve + get + u8({plugin_op::kScribble, 0, 7}) + serve +
            u8({plugin_op::kScribble, 0, 9}));
  write("plugin", "late", begun + get + late + serve + get + late + late + late);
  write("plugin", "drop", begun + put + u8({plugin_op::kDrop, 1}) + serve + serve + get + serve);
  write("plugin", "evict", begun + put + serve + u8({plugin_op::kEvict, 1}) + serve + get);
  write("plugin", "state", begun + u8({plugin_op::kState, 0, 0, plugin_op::kState, 1, 1}) + get);
  write("plugin", "second", begun + u8({plugin_op::kConnect}) + get + serve);
  write("plugin", "lives", begun + put + end + begun + put + serve + end + get);
  write("plugin", "other_protocol", u8({plugin_op::kConnect, plugin_op::kReady, 2}));
  write("plugin", "bytes", begun + get + u8({plugin_op::kBytes, 17, 1, 0}) + std::string(24, '\1'));
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  directory = argv[1];
  protocol_seeds();
  lower_tier_seeds();
  session_seeds();
  region_seeds();
  namespace_seeds();
  index_seeds();
  yaml_seeds();
  http_seeds();
  resp_seeds();
  peer_seeds();
  plugin_seeds();
  operator_seeds();
  return 0;
}
