// Which Host is a name of the server.
#include "sidecar/http/hosts.h"

#include <gtest/gtest.h>

namespace larder::http {
namespace {

constexpr std::string_view kProxied = "/api/v1/namespaces/ml/pods/llm-0:9464/proxy/v1/status";

TEST(HostsTest, ReadsNamesAndAddresses) {
  EXPECT_EQ(host_of("Node1.Example:9464"), "node1.example");
  EXPECT_EQ(host_of("node1.example."), "node1.example");
  EXPECT_EQ(host_of("10.0.0.7:9464"), "10.0.0.7");
  EXPECT_EQ(host_of("[FD00::7]:9464"), "fd00::7");
  EXPECT_EQ(host_of("[fe80::1%25eth0]"), "fe80::1");
  EXPECT_EQ(host_of("a:"), "a") << "RFC 9110 lets a port be empty";
  EXPECT_EQ(host_of(""), "");
  for (const char* wrong : {"a b", "a/b", "a@b", "a\"", "a,b c", "[::1", "[::1]x", "[a]:1", "::1",
                            "a:b", "a:1:2", "\xc3\xa4", "a\t", "[]"})
    EXPECT_FALSE(host_of(wrong)) << wrong;
}

// covers F-124
TEST(HostsTest, LoopbackAnswersOnlyAddressesAndLocalhost) {
  const Hosts hosts = Hosts::of({"127.0.0.1", 9464}, true);
  for (const char* known : {"127.0.0.1:9464", "127.0.0.1", "localhost:9464", "LOCALHOST",
                            "localhost.", "[::1]:9464", "[::ffff:1.2.3.4]"})
    EXPECT_TRUE(hosts.answers({.host = known})) << known;
  for (const char* foreign : {"evil.example:9464", "localhost.evil.example",
                              "evil.localhost.example", "127.0.0.1.evil.example", "2130706433",
                              "0x7f.1", "larder.ml.svc", "x.svc.cluster.local", "", "larderd"})
    EXPECT_FALSE(hosts.answers({.host = foreign})) << foreign;
  EXPECT_FALSE(hosts.answers({.host = own_host_name()}) && own_host_name() != "localhost");
  EXPECT_FALSE(hosts.answers({"evil.example", "gzip", kProxied}))
      << "no API server reaches loopback";
}

TEST(HostsTest, ClusterNamesOfTheHostAreAnswered) {
  const Hosts hosts = Hosts::of({"", 9464}, false);
  for (const std::string& known :
       {std::string("10.0.0.7:9464"), own_host_name() + ":9464", std::string("larder.ml.svc:9464"),
        std::string("larder.ml.svc.cluster.local.")})
    EXPECT_TRUE(hosts.answers({.host = known})) << known;
  for (const char* foreign :
       {"evil.example", "svc", "evil.svc.example", "larder.ml", "x.svc.cluster.local.evil.example"})
    EXPECT_FALSE(hosts.answers({.host = foreign})) << foreign;
}

// The API server passes its own name on as Host. A name that a page can send as well is not enough.
// covers F-124
TEST(HostsTest, ApiServerProxyRequestsAreAnswered) {
  const Hosts hosts = Hosts::of({"", 9464}, false);
  EXPECT_TRUE(hosts.answers({"api.cluster.example:6443", "gzip", kProxied}));
  EXPECT_FALSE(hosts.answers({"evil.example:9464", "gzip, deflate", kProxied})) << "a browser's";
  EXPECT_FALSE(hosts.answers({"evil.example:9464", "", kProxied}));
  EXPECT_FALSE(hosts.answers({"evil.example:9464", "gzip", ""}));
  EXPECT_FALSE(hosts.answers({"evil.example:9464", "gzip", "/proxy/v1/status"}));
}

TEST(HostsTest, ConfiguredHostsAreAnswered) {
  const Hosts hosts = Hosts::of({"node1.example", 9464}, true, {"Node2.example", "*.gpu.example"});
  for (const char* known : {"node1.example", "node2.example:1", "a.gpu.example", "a.b.gpu.example"})
    EXPECT_TRUE(hosts.answers({.host = known})) << known;
  for (const char* foreign :
       {"gpu.example", ".gpu.example", "agpu.example", "a.node2.example", "*.gpu.example.evil"})
    EXPECT_FALSE(hosts.answers({.host = foreign})) << foreign;
}

TEST(HostsTest, AnyAnswersEveryHost) {
  EXPECT_TRUE(Hosts::any().answers({.host = "evil.example"}));
}

}  // namespace
}  // namespace larder::http
