// PeerEngine turn by turn, at times that the test sets.
#include "sidecar/tiers/peer/peer_engine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/eventually.h"
#include "tests/unit/tiers/peer/fake_peer.h"

namespace larder::peer {
namespace {

using test::eventually;
using testing_support::FakePeer;

tiers::Command probe_of(std::uint64_t number, const base::Clock& clock) {
  tiers::Command command;
  command.operation = tiers::Operation::kProbe;
  command.ticket = number;
  command.keys = {tiers::testing_support::key_of(number)};
  command.deadline_ns = clock.now_ns() + 10'000'000'000;
  return command;
}

// After a pause of the thread the reply and the next question are there together.
TEST(PeerEngineTest, ReplyInTheSocketCountsAsAnAnswerOfThePeer) {
  FakePeer peer([](const Request& request) {
    return look_reply(std::vector<std::optional<tiers::ChunkFacts>>(request.keys.size()));
  });
  base::ManualClock clock;
  const ClientOptions options = testing_support::client_options({peer.endpoint()});
  Offers offers(16);
  PeerEngine engine(options, clock, offers);
  ASSERT_TRUE(engine.start().ok());
  ASSERT_TRUE(eventually([&] {
    engine.turn(0);
    return engine.view().state.servers_reachable == 1;
  }));
  ASSERT_TRUE(eventually([&] { return peer.replies() == 2; })) << "a HELLO of each connection";
  engine.accept(probe_of(1, clock));
  engine.turn(0);
  engine.turn(0);  // sends
  ASSERT_TRUE(eventually([&] { return peer.replies() == 3; }));
  clock.advance_ms(options.probe_ms + 1);
  engine.accept(probe_of(2, clock));
  engine.turn(0);
  engine.turn(0);
  EXPECT_TRUE(eventually([&] { return peer.asked(Request::Kind::kLook) == 2; }))
      << "the second question was answered without the peer";
}

}  // namespace
}  // namespace larder::peer
