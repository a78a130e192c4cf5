#include "sidecar/config/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace larder::config {
namespace {

using testing::HasSubstr;

TEST(ValuesTest, SizesAreBinary) {
  for (const char* text : {"5GiB", "5Gi", "5G", "5120MiB", "5242880K"}) {
    const Result<std::uint64_t> size = parse_size(text);
    ASSERT_TRUE(size.ok()) << text;
    EXPECT_EQ(*size, 5ULL << 30) << text;
  }
  EXPECT_EQ(*parse_size("010M"), 10ULL << 20) << "never octal";
}

TEST(ValuesTest, InvalidSizesAreRefused) {
  const auto why = [](const char* text) { return parse_size(text).status().text(); };
  EXPECT_THAT(why("5"), HasSubstr("has no unit"));
  EXPECT_EQ(*parse_size("0"), 0U) << "in every unit";
  EXPECT_THAT(why("5GB"), HasSubstr("unknown unit 'GB'"));
  EXPECT_THAT(why("5 GiB"), HasSubstr("unknown unit ' GiB'"));
  EXPECT_THAT(why(""), HasSubstr("is no size"));
  EXPECT_THAT(why("GiB"), HasSubstr("is no size"));
  EXPECT_THAT(why("-5GiB"), HasSubstr("is no size"));
  EXPECT_THAT(why("1.5GiB"), HasSubstr("no whole number"));
  EXPECT_THAT(why("99999999999999999999G"), HasSubstr("is no size"));
  EXPECT_THAT(why("18446744073709551615T"), HasSubstr("too large"));
}

TEST(ValuesTest, PrintsSizesExactly) {
  EXPECT_EQ(print_size(5ULL << 30), "5GiB");
  EXPECT_EQ(print_size(1536ULL << 20), "1536MiB");
  EXPECT_EQ(print_size(16ULL << 40), "16TiB");
  EXPECT_EQ(print_size(1000), "1000");
}

TEST(ValuesTest, Durations) {
  for (const char* text : {"90m", "5400s"}) EXPECT_EQ(*parse_duration_s(text), 5400U) << text;
  EXPECT_EQ(*parse_duration_s("0"), 0U);
  EXPECT_EQ(*parse_duration_s("2d"), 172'800U);
  for (const char* text : {"", "h", "-1h"})
    EXPECT_THAT(parse_duration_s(text).status().text(), HasSubstr("is no duration")) << text;
  for (const char* text : {"12", "12 h", "12w", "12hh", "1.5h"})
    EXPECT_THAT(parse_duration_s(text).status().text(), HasSubstr("has no unit")) << text;
  EXPECT_THAT(parse_duration_s("49711d").status().text(), HasSubstr("too long"));
  for (const char* text : {"0", "90s", "90m", "12h", "30d"})
    EXPECT_EQ(print_duration_s(*parse_duration_s(text)), text);
}

TEST(ValuesTest, ModesAreOctal) {
  EXPECT_EQ(*parse_mode("0660"), 0660U);
  EXPECT_EQ(*parse_mode("666"), 0666U);
  EXPECT_EQ(print_mode(0660), "0660");
  for (const char* text : {"", "66", "0o660", "00660", "0888", "1777", "rw"})
    EXPECT_THAT(parse_mode(text).status().text(), HasSubstr("is no file mode")) << text;
  EXPECT_THAT(parse_mode("0060").status().text(), HasSubstr("must contain 0600"));
}

TEST(ValuesTest, Names) {
  for (const char* text : {"larder", "a", "Pool_1.x-y", "_"})
    EXPECT_TRUE(check_name(text).ok()) << text;
  EXPECT_TRUE(check_prefix(std::string(127, 'a')).ok());
  EXPECT_THAT(check_prefix(std::string(128, 'a')).text(),
              HasSubstr("is no name: 1 to 127 letters"));
  for (const std::string& text : {std::string(), std::string("a/b"), std::string(".."),
                                  std::string("-x"), std::string(64, 'a')})
    EXPECT_THAT(check_name(text).text(), HasSubstr("is no name")) << text;
}

TEST(ValuesTest, Paths) {
  EXPECT_TRUE(check_socket_path("/run/larder/larder.sock").ok());
  EXPECT_THAT(check_socket_path("larder.sock").text(), HasSubstr("must begin with '/'"));
  EXPECT_THAT(check_socket_path("/" + std::string(107, 'x')).text(),
              HasSubstr("at most 107 bytes"));
  EXPECT_TRUE(check_socket_path("/" + std::string(106, 'x')).ok());
}

TEST(ValuesTest, ListenAddresses) {
  const auto host = [](const char* text) { return parse_listen(text)->host; };
  EXPECT_EQ(host("127.0.0.1:9464"), "127.0.0.1");
  EXPECT_EQ(host("[::1]:9464"), "::1");
  EXPECT_EQ(host("[fe80::1%eth0]:9464"), "fe80::1%eth0");
  EXPECT_EQ(host("my-host_1.example:9464"), "my-host_1.example");
  EXPECT_EQ(host(":0"), "");
  EXPECT_EQ(parse_listen("localhost:65535")->port, 65535);
  for (const char* text : {"9464", "host:", "host:65536", "host:-1", "host:http", ":", "foo bar:94",
                           "a/b:94", "[::1 ]:94", "[a-b]:94"})
    EXPECT_THAT(parse_listen(text).status().text(), HasSubstr("is no address to listen on"))
        << text;
  EXPECT_THAT(parse_listen("::1:9464").status().text(), HasSubstr("without brackets"));
}

TEST(ValuesTest, HostsAreNamesOrSubdomainWildcards) {
  EXPECT_EQ(parse_hosts(" a.example ,*.b.example,c")->size(), 3U);
  EXPECT_EQ(print_hosts(*parse_hosts("a.example,*.b.example")), "a.example, *.b.example");
  EXPECT_TRUE(parse_hosts("")->empty());
  for (const char* wrong : {"*", "*.", "a,,b", "a b", "a:9464", "http://a", "a.*", ".a", "[::1]"})
    EXPECT_THAT(parse_hosts(wrong).status().text(), HasSubstr("is no name of a host")) << wrong;
  std::string many = "a";
  for (int i = 0; i < 16; ++i) many += ",a";
  EXPECT_THAT(parse_hosts(many).status().text(), HasSubstr("more than 16 names"));
}

}  // namespace
}  // namespace larder::config
