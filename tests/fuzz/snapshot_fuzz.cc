// Two answers to GET /v1/status, one after the other, as larderctl and `kubectl larder` show
// answers: any program in a pod may answer.
//
// Promises: an answer is understood or refused; the shown text commands no terminal. Input: two
// bytes of the first one's length, the first, the second.
#include <optional>

#include "sidecar/ctl/snapshot.h"
#include "sidecar/ctl/status_screen.h"
#include "sidecar/ctl/top.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;

void must_be_harmless(const std::string& text) {
  unsigned char before = 0;
  for (const char one : text) {
    const auto c = static_cast<unsigned char>(one);
    const bool c1 = before == 0xc2 && c >= 0x80 && c < 0xa0;
    must(c1 == false && c != 0x7f && (c >= ' ' || c == '\n'),
         "the shown text commands no terminal");
    before = c;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const auto before = ctl::read_snapshot(input.take_text(input.take<std::uint16_t>()));
  const auto now = ctl::read_snapshot(input.rest());
  if (!now.ok()) {
    must(!now.status().text().empty(), "a refusal says why");
    must_be_harmless(now.status().text());
    return 0;
  }
  must_be_harmless(ctl::status_screen(*now));
  must_be_harmless(ctl::top_screen(*now, before.ok() ? std::optional(*before) : std::nullopt));
  must_be_harmless(ctl::waiting_screen("gone", *now));
  return 0;
}
