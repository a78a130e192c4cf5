// HTTP: head and body in arriving pieces, through framing and routes.
//
// Promises: framing does not depend on the pieces and holds no more than the limits, chunked bodies
// too; every whole request gets one whole answer; an admin verb is done only for a POST to an
// endpoint that allows the verb, without Origin.
#include "sidecar/http/answer.h"
#include "sidecar/http/framing.h"
#include "sidecar/pages/routes.h"
#include "tests/fuzz/input.h"
#include "tests/unit/pages/fake_control.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using http::RequestReader;
using State = RequestReader::State;

// The state after the bytes that have arrived.
struct Arrived {
  State state = State::kMore;
  http::Refusal refusal;
  http::Request request;  // when whole
  std::string_view rest;
};

Arrived arrive(std::string_view received, std::size_t step, const http::Limits& limits,
               const http::Hosts& hosts) {
  RequestReader reader(limits, hosts);
  Arrived arrived;
  arrived.rest = received;
  while (arrived.state == State::kMore && !arrived.rest.empty()) {
    std::string_view piece = arrived.rest.substr(0, step);
    const std::size_t had = piece.size();
    arrived.state = reader.take(piece);
    must(arrived.state == State::kWhole || arrived.state == State::kRefused || piece.empty(),
         "an unfinished request takes all bytes");
    must(reader.held_bytes() <= limits.head_bytes + limits.body_bytes,
         "the held bytes are bounded");
    arrived.rest.remove_prefix(had - piece.size());
  }
  arrived.refusal = reader.refusal();
  if (arrived.state == State::kWhole) arrived.request = reader.release();
  return arrived;
}

void check(const Arrived& arrived) {
  const http::Request& request = arrived.request;
  if (arrived.state == State::kWhole) {
    must(request.bytes.substr(0, request.head_bytes).ends_with("\r\n\r\n"),
         "a whole request has a whole head");
    must(request.method().size() + request.path().size() + request.body().size() <=
             request.bytes.size(),
         "the parts of a request lie in the request");
  }
  if (arrived.state == State::kRefused)
    must(arrived.refusal.http_status >= 400 && arrived.refusal.http_status < 500 &&
             !arrived.refusal.why.empty(),
         "a refusal is named");
}

void check_answer(const std::string& request, pages::Routes::Admin admin) {
  pages::FakeControl control;
  control.stats.models.push_back({});
  const http::Counters counters;
  pages::Routes routes(control, counters, admin);
  const std::string answer = routes.respond(request);
  must(answer.starts_with("HTTP/1."), "an answer is one of HTTP");
  must(answer.find("\r\n\r\n") != std::string::npos, "an answer has a whole head");
  must(answer.size() < 256 * 1024, "an answer is bounded");
  if (control.dropped().empty()) return;
  must(admin == pages::Routes::Admin::kAllowed,
       "admin verbs answer only on an endpoint that allows them");
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
  limits.chunked = (mode & 4) != 0;
  static const http::Hosts any = http::Hosts::any(),
                           own = http::Hosts::of({"", 9464}, false, {"a"});
  const http::Hosts& hosts = (mode & 8) != 0 ? own : any;
  const Arrived arrived = arrive(received, received.size() + 1, limits, hosts);
  check(arrived);
  const Arrived early = arrive(received, step, limits, hosts);
  must(early.state == arrived.state && early.request.bytes == arrived.request.bytes &&
           early.request.keep_alive == arrived.request.keep_alive &&
           early.refusal.http_status == arrived.refusal.http_status,
       "framing does not depend on how the bytes arrive");
  // Bytes after a refused request belong to no request: the connection ends.
  must(early.state == State::kRefused || early.rest.size() == arrived.rest.size(),
       "nor does where the next request begins");
  if (arrived.state == State::kRefused)
    must(
        http::plain_answer(arrived.refusal.http_status, arrived.refusal.why).starts_with("HTTP/1."),
        "a refusal is an answer");
  if (arrived.state == State::kWhole && !limits.chunked)
    check_answer(arrived.request.bytes,
                 (mode & 2) != 0 ? pages::Routes::Admin::kAllowed : pages::Routes::Admin::kRefused);
  return 0;
}
