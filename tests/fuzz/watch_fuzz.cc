// The body of a Kubernetes watch, in pieces by the input.
//
// Promises: the events do not depend on the pieces; every event has an object; a line over the
// limit ends the stream, and no more than the limit is kept; after an error no event comes.
#include <algorithm>
#include <string>
#include <vector>

#include "operator/k8s/watch_decoder.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;

constexpr std::size_t kMostLineBytes = 512;

struct Seen {
  std::vector<std::string> events;
  Code code = Code::kOk;
  bool operator==(const Seen&) const = default;
};

// `pieces` is gone through again and again; a zero is one byte.
Seen decode(const std::string& body, const std::vector<std::uint8_t>& pieces) {
  Seen seen;
  bool over = false;
  k8s::WatchDecoder decoder(
      [&](k8s::WatchEvent event) {
        must(!over, "no event comes after an error");
        must(event.object.is_object(), "an event has an object");
        must(!event.initial_end || event.type == k8s::WatchEvent::Type::kBookmark,
             "only a bookmark ends the first events");
        seen.events.push_back(std::to_string(static_cast<int>(event.type)) + event.object.dump());
      },
      kMostLineBytes);
  std::size_t at = 0;
  for (std::size_t i = 0; at < body.size(); ++i) {
    const std::size_t size =
        pieces.empty() ? body.size() : std::max<std::size_t>(1, pieces[i % pieces.size()]);
    const Status status = decoder.feed(std::string_view(body).substr(at, size));
    must(decoder.kept_bytes() <= kMostLineBytes, "no more than a line is kept");
    must(!over || !status.ok(), "an error stays");
    over = over || !status.ok();
    seen.code = status.code();
    at += size;
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::vector<std::uint8_t> pieces(input.byte() % 8);
  for (std::uint8_t& piece : pieces) piece = input.byte();
  const std::string body = input.rest();
  const Seen whole = decode(body, {});
  must(decode(body, pieces) == whole, "pieces do not matter");
  must(decode(body, {1}) == whole, "single bytes do not matter");
  return 0;
}
