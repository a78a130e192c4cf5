// A real larderd with the example plug-in as a process of its own: chunks outlive the memory of
// larderd, and the death or stop of the plug-in costs misses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "tests/component/larderd_process.h"
#include "tests/component/plugin_process.h"
#include "tests/unit/loop/chunk_engine.h"

namespace larder::test {
namespace {

using loop::testing_support::ChunkEngine;
using protocol::FetchEnd;
using testing::HasSubstr;

const std::string kFingerprint = "engine: vllm\ndtype: bfloat16\n";

class PluginTest : public testing::Test {
 protected:
  void SetUp() override {
    larderd_ = std::make_unique<LarderdProcess>(
        "8MiB", "info", LARDERD_PATH,
        "backend:\n  url: plugin://files\n  plugin_patience: 1s\n  plugin_region: 32MiB\n"
        "  plugin_socket: " +
            socket() + "\n");
    attach();
  }
  void TearDown() override { detach(); }
  std::string socket() const { return folder_.path() + "/files.plugin"; }
  void attach() {
    engine_ = std::make_unique<ChunkEngine>(larderd_->socket(), kFingerprint);
    beat_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        engine_->beat();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    });
  }
  void detach() {
    beat_ = {};
    engine_.reset();
  }
  // An empty larderd, as on another machine.
  void restart_cold() {
    detach();
    plugin_.reset();
    larderd_->kill_and_restart(SIGTERM, [this] { larderd_->lose_memory(); });
    start_plugin();
    attach();
  }
  void start_plugin() {
    plugin_.emplace(socket(), folder_.path() + "/objects");
    EXPECT_TRUE(eventually([this] { return serves(); })) << reason();
  }
  bool serves() const { return larderd_->status_at({"backend", "takes_gets"}) == true; }
  std::string reason() const { return larderd_->status_text({"backend", "reason"}); }
  void store(std::uint64_t from, std::uint64_t to) {
    const std::int64_t before = larderd_->status_number({"backend", "puts", "ok"});
    for (std::uint64_t n = from; n <= to; ++n) engine_->store(n);
    EXPECT_TRUE(eventually([&] {
      return larderd_->status_number({"backend", "puts", "ok"}) >=
             before + static_cast<std::int64_t>(to - from + 1);
    }));
  }
  bool right(std::uint64_t from, std::uint64_t to) const {
    for (std::uint64_t n = from; n <= to; ++n)
      if (!engine_->right(n)) return false;
    return true;
  }

  TemporaryFolder folder_;
  std::unique_ptr<LarderdProcess> larderd_;
  std::optional<PluginProcess> plugin_;
  std::unique_ptr<ChunkEngine> engine_;
  std::jthread beat_;
};

TEST_F(PluginTest, ChunksComeBackIntoAColdLarderd) {
  EXPECT_THAT(reason(), HasSubstr("no plug-in is connected at " + socket()));
  start_plugin();
  EXPECT_EQ(larderd_->status_text({"backend", "mode"}), "files 1");
  store(1, 16);
  restart_cold();
  EXPECT_FALSE(engine_->find(1));
  EXPECT_EQ(engine_->fetch(1, 1, 16).families, 0U) << "nobody has looked";
  const protocol::Probed probed = engine_->probe(1, 20);
  EXPECT_EQ(probed.families, 16U);
  EXPECT_EQ(probed.shared, 16U);
  EXPECT_EQ(engine_->fetch(2, 1, 16).families, 16U);
  EXPECT_TRUE(right(1, 16));
}

// covers F-340
TEST_F(PluginTest, AKilledPlugInCostsMissesAndTheNextOneServes) {
  start_plugin();
  store(1, 8);
  restart_cold();
  for (int round = 0; round < 5; ++round) {
    plugin_->kill();
    EXPECT_TRUE(eventually([this] { return !serves(); }));
    EXPECT_EQ(engine_->probe(1, 8, 200).families, 0U);
    const auto begun = std::chrono::steady_clock::now();
    start_plugin();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  }
  EXPECT_EQ(engine_->probe(1, 8).families, 8U);
  EXPECT_EQ(engine_->fetch(2, 1, 8).families, 8U);
  EXPECT_TRUE(right(1, 8));
}

// covers F-341
TEST_F(PluginTest, AStoppedPlugInDelaysNoCallBeyondItsDeadline) {
  start_plugin();
  store(1, 8);
  restart_cold();
  EXPECT_EQ(engine_->probe(1, 8).families, 8U);
  plugin_->signal(SIGSTOP);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(engine_->fetch(3, 1, 8, 300).families, 0U);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(2000));
  EXPECT_TRUE(eventually([this] { return !serves(); }));
  EXPECT_THAT(reason(), HasSubstr("answered no call for 1000 ms"));
  start_plugin();  // in place of the stopped one
  // The missed deadlines made the tier slow, until a read of its own was in time.
  EXPECT_TRUE(eventually([this] { return engine_->probe(1, 8).families == 8; }));
  EXPECT_EQ(engine_->fetch(4, 1, 8).families, 8U);
  EXPECT_TRUE(right(1, 8));
}

}  // namespace
}  // namespace larder::test
