// Stores over a session of the test's, with copies that wait for the test.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "shim/client/stores.h"
#include "tests/unit/client/copies.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/client/fake_session.h"

namespace larder::client::testing_support {

// Stores wait at the gate until it is open, but for the first `free_turns`.
class GatedStores final : public HostCopies {
 public:
  Result<std::uint64_t> store(const copy::PieceList& from,
                              std::span<std::byte> slot) const override {
    if (gate.enter() >= free_turns) gate.pass();
    return HostCopies::store(from, slot);
  }
  mutable Gate gate;
  int free_turns = 0;
};

// Stores with a session of the test's, which grants every request.
class StoresTest : public testing::Test {
 protected:
  StoresTest() : engine_(kPlainLayout), pages_{engine_.pages()} {
    spec_.shard_count = 1;
    spec_.groups = {engine_.group()};
  }
  ~StoresTest() override { gated_.gate.open(); }

  Transfer transfer(std::uint32_t count) const {
    Transfer t;
    for (std::uint32_t i = 0; i < count; ++i) {
      t.hashes.push_back(hash_of(i));
      const auto pages = engine_.chunk_pages(i);
      t.pages.insert(t.pages.end(), pages.begin(), pages.end());
    }
    return t;
  }
  // Begins a store of this number of chunks, and grants the store.
  std::vector<protocol::SlotRef> granted(Stores& stores, std::uint32_t count) {
    const std::uint32_t request = begun(stores, count);
    return grant(stores, request, count);
  }
  std::uint32_t begun(Stores& stores, std::uint32_t count) {
    stores.begin(session_.attachment, transfer(count), true);
    std::uint32_t request = 0;
    EXPECT_EQ((session_
                   .receive<protocol::Reserve, protocol::BlockHash>(protocol::MessageType::kReserve,
                                                                    &request)
                   .size()),
              count);
    return request;
  }
  std::vector<protocol::SlotRef> grant(Stores& stores, std::uint32_t request, std::uint32_t count) {
    const auto grants = FakeSession::grants(count, engine_.group().slot_bytes());
    stores.granted(session_.attachment, request, grants);
    std::vector<protocol::SlotRef> refs;
    for (const protocol::Grant& grant : grants) refs.push_back({grant.slot, 0, grant.generation});
    return refs;
  }

  Engine engine_;
  std::vector<GroupPages> pages_;
  NamespaceSpec spec_;
  GatedStores gated_;
  CopyPool pool_{1};
  FakeSession session_;
};

}  // namespace larder::client::testing_support
