// Certificates between larderd as a user runs them: both sides must have one of the pool, and files
// are rotated without a miss.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "tests/component/certificates.h"
#include "tests/component/command.h"
#include "tests/component/peer_node.h"
#include "tests/component/server_process.h"

namespace larder::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class PeersTlsTest : public testing::Test {
 protected:
  PeersTlsTest() {
    files_.authority("ca");
    files_.authority("other");
    files_.certificate("one", "ca", "DNS:chat.serving.larder");
    files_.certificate("two", "ca", "DNS:chat.serving.larder");
    files_.certificate("stranger", "other", "DNS:chat.serving.larder");
    files_.certificate("named", "ca", "DNS:other.serving.larder");
    files_.short_lived("past", "ca", "DNS:chat.serving.larder", -60);
    files_.common_name("common", "ca", "chat.serving.larder");
  }
  std::string tls(const std::string& certificate, const std::string& ca = "ca") const {
    return "  ca_file: " + files_.file(ca + ".crt") +
           "\n  cert_file: " + files_.file(certificate + ".crt") +
           "\n  key_file: " + files_.file(certificate + ".key") +
           "\n  server_name: chat.serving.larder\n";
  }
  const Certificates files_;
};

TEST_F(PeersTlsTest, MutualCertificatesAllowSharing) {
  const std::uint16_t port = free_port();
  Node holder({port, {}, "chat", tls("one")}), asker({0, {port}, "chat", tls("two")});
  holder.store(0);
  ASSERT_TRUE(asker.reaches(1)) << asker.larderd.status_text({"peers", "reason"});
  EXPECT_EQ(asker.larderd.status_text({"peers", "mode"}), "TLS");
  EXPECT_EQ(asker.probe(0), kChunks);
  EXPECT_EQ(asker.fetch(0), kChunks);
  EXPECT_TRUE(asker.loads(0));
}

// covers F-273, F-279
TEST_F(PeersTlsTest, PeerWithOtherCertificateIsRefused) {
  const std::uint16_t port = free_port();
  Node holder({port, {}, "chat", tls("one")});
  holder.store(0);
  for (const std::string& settings :
       {tls("stranger", "ca"), tls("stranger", "other"), tls("named"), tls("past"), tls("common"),
        std::string("  plaintext: true\n")}) {
    Node asker({0, {port}, "chat", settings});
    EXPECT_TRUE(eventually(
        [&] {
          return !asker.larderd.status_text({"peers", "reason"}).empty();
        },
        10'000))
        << settings;
    EXPECT_EQ(asker.probe(0), 0U) << settings;
    EXPECT_EQ(asker.larderd.status_number({"peers", "servers", "reachable"}), 0) << settings;
  }
  Node well({0, {port}, "chat", tls("two")});
  EXPECT_TRUE(well.reaches(1));
}

// covers F-279
TEST_F(PeersTlsTest, AConnectionEndsWithTheCertificateAndANewFileHeals) {
  for (const bool holds : {true, false}) {
    files_.short_lived("brief", "ca", "DNS:chat.serving.larder", 10);
    const std::uint16_t port = free_port();
    Node holder({port, {}, "chat", tls(holds ? "brief" : "one")}),
        asker({0, {port}, "chat", tls(holds ? "two" : "brief")});
    ASSERT_TRUE(asker.reaches(1)) << asker.larderd.status_text({"peers", "reason"});
    EXPECT_TRUE(eventually(
        [&] {
          const std::string why = asker.larderd.status_text({"peers", "reason"});
          return asker.larderd.status_number({"peers", "servers", "reachable"}) == 0 &&
                 why.find("expired") != std::string::npos;
        },
        20'000))
        << asker.larderd.status_text({"peers", "reason"});
    files_.certificate("fresh", "ca", "DNS:chat.serving.larder");
    files_.rename("fresh.key", "brief.key");
    files_.rename("fresh.crt", "brief.crt");
    EXPECT_TRUE(asker.reaches(1)) << asker.larderd.status_text({"peers", "reason"});
  }
}

// covers F-280
TEST_F(PeersTlsTest, RotatedFilesAreReadAgainWithoutAMiss) {
  files_.certificate("one-new", "other", "DNS:chat.serving.larder");
  files_.certificate("two-new", "other", "DNS:chat.serving.larder");
  files_.certificate("three", "ca", "DNS:chat.serving.larder");
  for (const char* trusted : {"own-one", "own-two", "own-three"})
    run("cp " + files_.file("ca.crt") + " " + files_.file(std::string(trusted) + ".crt"));
  const std::uint16_t port = free_port();
  Node holder({port, {}, "chat", tls("one", "own-one")}),
      asker({0, {port}, "chat", tls("two", "own-two")});
  holder.store(0);
  ASSERT_TRUE(asker.reaches(1)) << asker.larderd.status_text({"peers", "reason"});
  const auto rotate = [&](const std::string& to, const std::string& from) {
    run("cp " + files_.file(from) + " " + files_.file("next"));
    files_.rename("next", to);
    EXPECT_TRUE(asker.shares(0)) << to;
  };
  run("cat " + files_.file("ca.crt") + " " + files_.file("other.crt") + " > " +
      files_.file("both.crt"));
  for (const char* trusted : {"own-one.crt", "own-two.crt"}) rotate(trusted, "both.crt");
  for (const char* end : {".key", ".crt"})
    for (const std::string name : {"one", "two"}) rotate(name + end, name + "-new" + end);
  for (const char* trusted : {"own-one.crt", "own-two.crt"}) rotate(trusted, "other.crt");
  // New connections have the new files alone.
  Node old({0, {port}, "chat", tls("three", "own-three")}),
      fresh({0, {port}, "chat", tls("two", "other")});
  EXPECT_TRUE(fresh.reaches(1)) << fresh.larderd.status_text({"peers", "reason"});
  EXPECT_EQ(old.larderd.status_number({"peers", "servers", "reachable"}), 0);
  EXPECT_TRUE(asker.shares(0)) << "over the connections of before";
  EXPECT_TRUE(fresh.shares(0));
}

// The files of one node as a kubelet mounts a Secret: links through ..data, which moves to a new
// version in one step.
class Mount {
 public:
  Mount(const Certificates& files, const std::string& node)
      : files_(files), folder_(files.file(node)) {
    shell("mkdir " + folder_);
    for (const char* name : {"ca.crt", "tls.crt", "tls.key"})
      shell(std::string("ln -s ..data/") + name + " " + folder_ + "/" + name);
  }
  // Brings authorities and leaf in one step.
  void bring(const std::string& ca, const std::string& leaf) {
    const std::string version = folder_ + "/version" + std::to_string(++version_);
    shell("mkdir " + version + " && cp " + files_.file(ca + ".crt") + " " + version +
          "/ca.crt && cp " + files_.file(leaf + ".crt") + " " + version + "/tls.crt && cp " +
          files_.file(leaf + ".key") + " " + version + "/tls.key && ln -s version" +
          std::to_string(version_) + " " + folder_ + "/next && mv -T " + folder_ + "/next " +
          folder_ + "/..data");
  }
  std::string tls() const {
    return "  ca_file: " + folder_ + "/ca.crt\n  cert_file: " + folder_ +
           "/tls.crt\n  key_file: " + folder_ + "/tls.key\n  server_name: chat.serving.larder\n";
  }

 private:
  static void shell(const std::string& command) {
    const Outcome outcome = run("sh -c '" + command + "'");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  }
  const Certificates& files_;
  const std::string folder_;
  int version_ = 0;
};

// Look-ups and reads of one node at the others, one after the other.
struct Traffic {
  int passes = 0, late = 0, missed = 0;

  void pass(Node& asker, std::uint64_t first) {
    ++passes;
    const auto begun = steady_clock::now();
    if (asker.probe(first) != kChunks) {
      // A machine that stood still for the 50 ms of a probe is no fault of the certificates.
      ++(since(begun) >= milliseconds(50) ? late : missed);
      return;
    }
    missed += asker.fetch(first) == kChunks && asker.loads(first) ? 0 : 1;
    asker.evict(first);
  }
};

// The longest time without a processor for a runnable thread. A peer without a processor for the
// time of a probe causes a miss, with any certificates.
class Stalls {
 public:
  milliseconds worst() const { return milliseconds(worst_ms_); }

 private:
  std::atomic<std::int64_t> worst_ms_ = 0;
  std::jthread watching_{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto from = steady_clock::now();
      std::this_thread::sleep_for(milliseconds(2));
      worst_ms_ = std::max<std::int64_t>(worst_ms_, since(from).count());
    }
  }};
};

// The steps of the operator's renewal (operator/pki/rotation.h), each brought to one node after the
// other, beside look-ups and reads without a pause, until the former certificate has expired.
// covers F-280, F-469
TEST_F(PeersTlsTest, RenewalBesideTrafficCostsNoMiss) {
  constexpr int kValidS = 30;
  files_.certificate("leaf-new", "other", "DNS:chat.serving.larder");
  run("sh -c 'cat " + files_.file("ca.crt") + " " + files_.file("other.crt") + " > " +
      files_.file("both.crt") + "'");
  std::array<Mount, 3> mounts{Mount{files_, "node1"}, Mount{files_, "node2"},
                              Mount{files_, "node3"}};
  files_.short_lived("leaf-old", "ca", "DNS:chat.serving.larder", kValidS);
  const auto expired = steady_clock::now() + std::chrono::seconds(kValidS);
  for (Mount& mount : mounts) mount.bring("ca", "leaf-old");
  const std::uint16_t ports[] = {free_port(), free_port()};
  Node one({ports[0], {}, "chat", mounts[0].tls()}), two({ports[1], {}, "chat", mounts[1].tls()}),
      asker({0, {ports[0], ports[1]}, "chat", mounts[2].tls()});
  one.store(0);
  two.store(100);
  ASSERT_TRUE(asker.reaches(2)) << asker.larderd.status_text({"peers", "reason"});
  ASSERT_LT(steady_clock::now(), expired) << "the machine is too slow for this test";
  std::jthread renewal([&] {
    using Step = std::pair<const char*, const char*>;
    for (const auto& [ca, leaf] : {Step("both", "leaf-old"), Step("both", "leaf-new")})
      for (Mount& mount : mounts) {
        mount.bring(ca, leaf);
        std::this_thread::sleep_for(milliseconds(200));
      }
  });
  Traffic traffic;
  const Stalls stalls;
  while (steady_clock::now() < expired + std::chrono::seconds(2)) {
    traffic.pass(asker, 0);
    traffic.pass(asker, 100);
  }
  renewal.join();
  for (Mount& mount : mounts) {
    mount.bring("other", "leaf-new");  // no leaf of the older authority is valid any more
    traffic.pass(asker, 0);
    traffic.pass(asker, 100);
  }
  std::printf(
      "%d look-ups with their reads: %d missed, %d late; the machine stood still for %d ms\n",
      traffic.passes, traffic.missed, traffic.late, static_cast<int>(stalls.worst().count()));
  EXPECT_GT(traffic.passes, 2 * traffic.late);
  EXPECT_TRUE(asker.reaches(2)) << asker.larderd.status_text({"peers", "reason"});
  const std::int64_t degraded = asker.larderd.status_number({"peers", "times_degraded"});
  if (traffic.missed + degraded != 0 && stalls.worst() >= milliseconds(30))
    GTEST_SKIP() << "the machine stood still for " << stalls.worst().count() << " ms";
  EXPECT_EQ(traffic.missed, 0) << "of " << traffic.passes;
  EXPECT_EQ(degraded, 0);
}

}  // namespace
}  // namespace larder::test
