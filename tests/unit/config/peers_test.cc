// The keys of peers: members in both forms, and what is refused with file, line and remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sidecar/config/loader.h"

namespace larder::config {
namespace {

using testing::HasSubstr;

class PeersKeysTest : public testing::Test {
 protected:
  ~PeersKeysTest() override { std::filesystem::remove(file_); }
  Result<Config> load_text(const std::string& text) {
    std::ofstream(file_) << text;
    return load(file_, {});
  }
  std::string why(const std::string& text) { return load_text(text).status().text(); }

  const std::string file_ =
      testing::TempDir() + "peers_keys." + std::to_string(::getpid()) + ".yaml";
};

TEST_F(PeersKeysTest, PeersAreDisabledByDefault) {
  EXPECT_FALSE(load_text("pool: chat\n")->peers.enabled());
  const Result<Config> listening = load_text("peers:\n  listen: '[::1]:9465'\n  plaintext: true\n");
  ASSERT_TRUE(listening.ok()) << listening.status().text();
  EXPECT_EQ(listening->peers.listen_host, "::1");
  EXPECT_EQ(listening->peers.listen_port, 9465);
}

TEST_F(PeersKeysTest, MembersAreAListOrAName) {
  const Result<Config> list = load_text("peers:\n  members: a:1,[::1]:2,a:1\n  plaintext: true\n");
  ASSERT_TRUE(list.ok()) << list.status().text();
  EXPECT_EQ(list->peers.member_hosts, (std::vector<BackendHost>{{"a", 1}, {"::1", 2}}));
  EXPECT_FALSE(list->peers.members_by_dns);
  const Result<Config> dns =
      load_text("peers:\n  members: dns:chat-peers.ns.svc:9465\n  plaintext: true\n");
  ASSERT_TRUE(dns.ok()) << dns.status().text();
  EXPECT_EQ(dns->peers.member_hosts, (std::vector<BackendHost>{{"chat-peers.ns.svc", 9465}}));
  EXPECT_TRUE(dns->peers.members_by_dns);
}

// covers F-119
TEST_F(PeersKeysTest, WrongValueErrorNamesFileAndLine) {
  EXPECT_THAT(why("peers:\n  members: a\n"),
              HasSubstr(".yaml:2: peers.members 'a' is not host:port"));
  EXPECT_THAT(why("peers:\n  members: 'a:1,'\n"),
              HasSubstr(":2: peers.members 'a:1,' ends with a comma"));
  EXPECT_THAT(why("peers:\n  members: dns:a:1,b:2\n"),
              HasSubstr("is not dns:NAME:PORT with one name"));
  EXPECT_THAT(why("peers:\n  listen: x\n"),
              HasSubstr(":2: peers.listen 'x' is no address to listen on"));
  EXPECT_THAT(why("peers:\n  fanout: 17\n"),
              HasSubstr(":2: peers.fanout '17' is out of range: 1 to 16"));
  EXPECT_THAT(why("peers:\n  serve_rate: 1KiB\n"),
              HasSubstr(":2: peers.serve_rate '1KiB' is out of range: 0, or 1MiB to 1TiB"));
  EXPECT_THAT(why("peers:\n  plaintext: yes\n"),
              HasSubstr(":2: peers.plaintext 'yes' is not one of: true, false"));
}

TEST_F(PeersKeysTest, TlsNeedsAllOfItsKeysAndPlaintextNone) {
  EXPECT_THAT(why("peers:\n  listen: :9465\n"),
              HasSubstr(":2: peers.listen is set and peers.ca_file is not: set peers.ca_file, "
                        "cert_file, key_file and server_name"));
  EXPECT_THAT(why("peers:\n  members: a:1\n  plaintext: true\n  ca_file: /ca\n"),
              HasSubstr(":4: peers.ca_file is /ca and peers.plaintext is true"));
  EXPECT_THAT(why("peers:\n  fanout: 3\n"),
              HasSubstr(":2: peers.fanout is 3 and neither peers.listen nor peers.members is set"));
  const Result<Config> whole = load_text(
      "peers:\n  listen: :9465\n  ca_file: /ca\n  cert_file: /crt\n  key_file: /key\n  "
      "server_name: chat.serving.larder\n");
  EXPECT_TRUE(whole.ok()) << whole.status().text();
}

}  // namespace
}  // namespace larder::config
