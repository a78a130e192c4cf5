// The sidecar as an engine meets it: attach, store, look up.
#include "tests/unit/ipc/sidecar_fixture.h"

namespace larder::ipc::testing_support {
namespace {

const std::string kFingerprint = "engine: vllm\ndtype: bfloat16\n";

TEST_F(SidecarTest, AnEngineAttachesStoresAndFinds) {
  start();
  Client client(config_.socket);
  client.attach();
  const std::uint32_t handle = client.open_namespace(kFingerprint);
  const auto grants = client.reserve(handle, {{1, 1}, {2, 2}});
  ASSERT_EQ(grants.size(), 2U);
  EXPECT_EQ(grants[0].status, 0U);
  const protocol::Key key{{1, 1}, handle, 0, 0};
  EXPECT_FALSE(client.index().find(key));
  client.commit(grants[0], 77);
  ASSERT_TRUE(wait([&] { return client.index().find(key).has_value(); }));
  const auto view = client.index().find(key);
  EXPECT_EQ(view->root, 77U);
  EXPECT_EQ(view->generation, grants[0].generation);
}

TEST_F(SidecarTest, ANamespaceForWhichThereIsNoRoomCostsNoSession) {
  start();
  Client client(config_.socket);
  client.attach();
  const std::uint32_t handle = client.open_namespace("number: 0");
  for (std::uint32_t i = 1; i < protocol::kMaxNamespaces; ++i)
    ASSERT_EQ(client.open_namespace("number: " + std::to_string(i)), i);
  std::string why;
  EXPECT_EQ(client.open_namespace("one more", 4096, &why), protocol::kNoNamespace);
  EXPECT_NE(why.find("namespaces are taken"), std::string::npos) << why;
  EXPECT_EQ(client.reserve(handle, {{1, 1}}).at(0).status, 0U);
}

}  // namespace
}  // namespace larder::ipc::testing_support
