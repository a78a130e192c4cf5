// TLS against OpenSSL's own server: the authorities that the client trusts, the client's own
// identity, and both changing at run time.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "operator/k8s/curl_transport.h"
#include "shim/base/fd.h"

namespace larder::k8s {
namespace {

namespace fs = std::filesystem;

int free_port() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    std::string name = (fs::temp_directory_path() / "larder_tls.XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    for (const char* ca : {"one", "two"}) {
      shell("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" +
            std::string(ca) + " -days 2 -keyout " + ca + "-ca.key -out " + ca + "-ca.crt");
      shell(
          "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -addext "
          "subjectAltName=IP:127.0.0.1,DNS:kubernetes -keyout " +
          std::string(ca) + ".key -out x.csr");
      shell("openssl x509 -req -in x.csr -copy_extensions copy -days 2 -CA " + std::string(ca) +
            "-ca.crt -CAkey " + ca + "-ca.key -CAcreateserial -out " + ca + ".crt");
    }
    // s_server -HTTP sends a file as the whole answer.
    std::ofstream(folder_ / "version")
        << "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
  }
  ~TlsTest() override {
    stop();
    fs::remove_all(folder_);
  }

  void shell(const std::string& command) const {
    ASSERT_EQ(std::system(("cd " + folder_.string() + " && " + command + " 2>>log").c_str()), 0)
        << command;
  }
  std::string text(const std::string& name) const {
    std::ostringstream all;
    all << std::ifstream(folder_ / name).rdbuf();
    return all.str();
  }

  void serve(const std::string& certificate, const std::string& more = "") {
    stop();
    if (port_ == 0) port_ = free_port();
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string command =
          "cd " + folder_.string() +
          " && exec openssl s_server -quiet -HTTP -accept 127.0.0.1:" + std::to_string(port_) +
          " -cert " + certificate + ".crt -key " + certificate + ".key " + more +
          " >>log 2>&1 </dev/null";
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 500; ++i) {
      const Fd probe(::socket(AF_INET, SOCK_STREAM, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<std::uint16_t>(port_));
      if (::connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    FAIL() << text("log");
  }
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  Credentials trusting(const std::string& ca) const {
    Credentials credentials;
    credentials.server = "https://127.0.0.1:" + std::to_string(port_);
    credentials.ca_pem = ca.empty() ? "" : text(ca + "-ca.crt");
    return credentials;
  }
  Status ask(CurlTransport& transport) const {
    return transport.exchange({.path = "/version"}).status();
  }
  Status ask(Credentials credentials) const {
    CredentialSource source(std::move(credentials));
    const base::MonotonicClock clock;
    CurlTransport transport(source, clock);
    return ask(transport);
  }

  fs::path folder_;
  int port_ = 0;
  pid_t pid_ = 0;
};

TEST_F(TlsTest, TrustsOnlyItsAuthority) {
  serve("one");
  EXPECT_TRUE(ask(trusting("one")).ok()) << ask(trusting("one")).to_string();
  EXPECT_EQ(ask(trusting("two")).code(), Code::kPermissionDenied);
  EXPECT_EQ(ask(trusting("")).code(), Code::kPermissionDenied)
      << "the image's authorities do not know the server";
  Credentials careless = trusting("");
  careless.verify = false;
  EXPECT_TRUE(ask(careless).ok());
}

TEST_F(TlsTest, ServerNameMustMatch) {
  serve("one");
  Credentials credentials = trusting("one");
  // not among the certificate's names
  credentials.server = "https://localhost:" + std::to_string(port_);
  EXPECT_EQ(ask(credentials).code(), Code::kPermissionDenied);
  credentials = trusting("one");
  credentials.server_name = "kubernetes";
  EXPECT_TRUE(ask(credentials).ok()) << ask(credentials).to_string();
  credentials.server_name = "elsewhere";
  EXPECT_EQ(ask(credentials).code(), Code::kPermissionDenied);
}

TEST_F(TlsTest, OldProtocolsAreRefused) {
  serve("one", "-tls1_1 -cipher ALL:@SECLEVEL=0");
  EXPECT_FALSE(ask(trusting("one")).ok());
}

TEST_F(TlsTest, SendsItsClientCertificate) {
  serve("one", "-Verify 1 -verify_return_error -CAfile two-ca.crt");
  EXPECT_FALSE(ask(trusting("one")).ok());
  Credentials credentials = trusting("one");
  credentials.certificate_pem = text("two.crt");
  credentials.key_pem = text("two.key");
  EXPECT_TRUE(ask(credentials).ok()) << ask(credentials).to_string();
}

TEST_F(TlsTest, RotatedAuthorityIsFollowed) {
  serve("one");
  std::ofstream(folder_ / "ca.crt") << text("one-ca.crt");
  CredentialSource source(trusting(""));
  ASSERT_TRUE(source.follow(folder_ / "ca.crt", &Credentials::ca_pem).ok());
  const base::MonotonicClock clock;
  CurlTransport transport(source, clock);
  EXPECT_TRUE(ask(transport).ok());
  serve("two");
  EXPECT_EQ(ask(transport).code(), Code::kPermissionDenied);
  std::ofstream(folder_ / "next") << text("two-ca.crt");
  fs::rename(folder_ / "next", folder_ / "ca.crt");
  EXPECT_TRUE(ask(transport).ok()) << ask(transport).to_string();
}

}  // namespace
}  // namespace larder::k8s
