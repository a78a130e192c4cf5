// HTTP: head and body as they arrive, piece by piece, through framing and routes.
//
// Promises: what framing says of a part it does not take back when more comes; it takes no more than the limits; every whole
// request gets one whole answer; an admin verb is done only for a POST to an endpoint that allows it, without Origin.
#include "sidecar/http/answer.h"
#include "sidecar/http/framing.h"
#include "sidecar/http/routes.h"
#include "tests/fuzz/input.h"
#include "tests/unit/http/fake_control.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using http::Framing;

// What framing says of the first bytes, as more and more of them arrive; the endpoint acts on the first word that is not "more".
Framing arrive(std::string_view received, std::size_t step, const http::Limits& limits) {
  for (std::size_t have = std::min(step, received.size());; have = std::min(have + step, received.size())) {
    const Framing framing = http::find_request(received.substr(0, have), limits);
    if (framing.state != Framing::State::kMore || have == received.size()) return framing;
  }
}

void check(const Framing& framing, std::string_view received, const http::Limits& limits) {
  if (framing.state == Framing::State::kWhole) {
    must(framing.request_bytes <= received.size(), "a whole request has arrived");
    must(framing.request_bytes <= limits.head_bytes + limits.body_bytes, "a whole request is within the limits");
  }
  if (framing.state == Framing::State::kRefused)
    must(framing.http_status >= 400 && framing.http_status < 500 && !framing.why.empty(), "a refusal is named");
  if (framing.state == Framing::State::kMore)
    must(received.size() < limits.head_bytes + limits.body_bytes, "what never ends is refused");
}

void check_answer(const std::string& request, http::Routes::Admin admin) {
  http::FakeControl control;
  control.stats.models.push_back({});
  const http::Counters counters;
  http::Routes routes(control, counters, admin);
  const std::string answer = routes.respond(request);
  must(answer.starts_with("HTTP/1."), "an answer is one of HTTP");
  must(answer.find("\r\n\r\n") != std::string::npos, "an answer has a whole head");
  must(answer.size() < 256 * 1024, "an answer is bounded");
  if (control.dropped().empty()) return;
  must(admin == http::Routes::Admin::kAllowed, "admin verbs answer only where they are allowed");
  must(request.starts_with("POST "), "only a POST drops");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  http::Limits limits;
  const std::uint8_t mode = input.byte();
  const std::size_t step = 1 + input.byte();
  if ((mode & 1) != 0) {  // limits that an input can reach
    limits.head_bytes = 256;
    limits.body_bytes = 128;
  }
  const std::string received = input.rest();
  const Framing framing = http::find_request(received, limits);
  check(framing, received, limits);
  const Framing early = arrive(received, step, limits);
  must(early.state == framing.state && early.request_bytes == framing.request_bytes && early.http_status == framing.http_status,
       "framing does not depend on how the bytes arrive");
  if (framing.state == Framing::State::kRefused)
    must(http::plain_answer(framing.http_status, framing.why).starts_with("HTTP/1."), "a refusal is an answer");
  if (framing.state == Framing::State::kWhole)
    check_answer(received.substr(0, framing.request_bytes),
                 (mode & 2) != 0 ? http::Routes::Admin::kAllowed : http::Routes::Admin::kRefused);
  return 0;
}
