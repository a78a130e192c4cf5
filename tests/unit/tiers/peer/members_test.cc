// The members of a pool whose addresses change. This program's own getaddrinfo() gives the name
// "peers.test" the port that a test has set, gives "two.test" two addresses, of which the first
// refuses, and leaves other names to libc.
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <cstring>
#include <string>

#include "tests/component/certificates.h"
#include "tests/unit/tiers/peer/peer_fixture.h"

namespace larder::peer::testing_support {
namespace {

std::atomic<std::uint16_t> port_of_name = 0;
constexpr const char* kName = "peers.test";
constexpr const char* kTwoAddresses = "two.test";

int resolve(const char* host, const char* port, const addrinfo* hints, addrinfo** found) {
  static auto* const real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool two = host != nullptr && std::strcmp(host, kTwoAddresses) == 0;
  if (host == nullptr || (!two && std::strcmp(host, kName) != 0))
    return real(host, port, hints, found);
  if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  if (two) {
    const int first = real("127.0.0.2", port, hints, found);
    return first != 0 ? first : real("127.0.0.1", port, hints, &(*found)->ai_next);
  }
  return real("127.0.0.1", std::to_string(port_of_name).c_str(), hints, found);
}

TEST(MembersTest, MemberLeavesWithItsAddress) {
  const base::MonotonicClock clock;
  Holder first(clock), second(clock);
  first.put(1);
  second.put(2);
  ClientOptions options = client_options({{kName, 7000}});
  options.by_dns = true;
  options.resolve_ms = 20;
  port_of_name = first.endpoint().port;
  Asker asker(clock, options);
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_EQ(asker.probe(1, 2), (std::vector<bool>{true, false}));
  port_of_name = second.endpoint().port;
  EXPECT_TRUE(test::eventually([&] { return first.server->counters().connections == 0; }));
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_EQ(asker.probe(1, 2), (std::vector<bool>{false, true}));
  EXPECT_EQ(asker.tier->state().servers, 1U);
}

// The first address once ended the renewal.
// covers F-469
TEST(MembersTest, RenewalTriesEachAddressOfAName) {
  constexpr int kValidS = 14;
  const test::Certificates files;
  files.authority("ca");
  files.short_lived("leaf", "ca", "DNS:chat.test.larder", kValidS);
  net::TlsOptions tls{.enabled = true,
                      .ca_file = files.file("ca.crt"),
                      .cert_file = files.file("leaf.crt"),
                      .key_file = files.file("leaf.key"),
                      .server_name = "chat.test.larder",
                      .strict = true,
                      .section = "peers"};
  ServerOptions serving;
  serving.tls = tls;
  const base::MonotonicClock clock;
  Holder holder(clock, serving);
  ClientOptions asking = client_options({{kTwoAddresses, holder.endpoint().port}});
  asking.tls = tls;
  Asker asker(clock, asking);
  ASSERT_TRUE(asker.reaches(1)) << asker.tier->state().reason;
  const std::uint64_t before = holder.server->counters().accepted;
  EXPECT_TRUE(test::eventually([&] { return holder.server->counters().accepted >= before + 2; },
                               1000 * (kValidS - 4)));
  EXPECT_EQ(asker.tier->state().servers_reachable, 1U);
}

}  // namespace
}  // namespace larder::peer::testing_support

extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints,
                           addrinfo** found) {
  return larder::peer::testing_support::resolve(host, port, hints, found);
}
