// RESERVE names the parents of chunks (protocol 1.9): to a larderd that knows them.
#include <gtest/gtest.h>

#include "tests/unit/client/stores_fixture.h"

namespace larder::client {
namespace {

using testing_support::FakeSession;
using testing_support::hash_of;

class ParentsTest : public testing_support::StoresTest {
 protected:
  // Chunks 1, 2, ... of one prompt.
  Transfer prompt(std::uint32_t count) const {
    Transfer t = transfer(count);
    t.parents = {{}};
    t.parents.insert(t.parents.end(), t.hashes.begin(), t.hashes.end() - 1);
    return t;
  }
  FakeSession::Reserved reserved_by(FakeSession& session, const Transfer& transfer) {
    Stores stores(pool_, gated_, spec_, pages_);
    stores.begin(session.attachment, transfer, true);
    FakeSession::Reserved reserved = session.receive_reserve();
    stores.lost(session.attachment);
    return reserved;
  }
};

TEST_F(ParentsTest, OlderLarderdGetsNoParents) {
  for (const std::uint32_t minor : {8U, 9U}) {
    FakeSession session(protocol::kCapabilityAct, minor);
    const Transfer given = prompt(3);
    const FakeSession::Reserved reserved = reserved_by(session, given);
    EXPECT_EQ(reserved.hashes, given.hashes);
    EXPECT_EQ(reserved.parents, minor < 9 ? std::vector<protocol::BlockHash>{} : given.parents);
  }
}

TEST_F(ParentsTest, PresentChunkIsSkippedAndStaysAParent) {
  FakeSession session(protocol::kCapabilityAct, 9);
  session.show(hash_of(1), 8192, 4096);
  const FakeSession::Reserved reserved = reserved_by(session, prompt(4));
  EXPECT_EQ(reserved.hashes, (std::vector{hash_of(0), hash_of(2), hash_of(3)}));
  EXPECT_EQ(reserved.parents, (std::vector{protocol::BlockHash{}, hash_of(1), hash_of(2)}));
}

TEST_F(ParentsTest, StoreWithoutParentsSendsNone) {
  FakeSession session(protocol::kCapabilityAct, 9);
  const FakeSession::Reserved reserved = reserved_by(session, transfer(2));
  EXPECT_EQ(reserved.hashes.size(), 2U);
  EXPECT_TRUE(reserved.parents.empty());
}

}  // namespace
}  // namespace larder::client
