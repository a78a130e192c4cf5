#include "operator/webhook/certificate_loader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "sidecar/base/log_throttle.h"
#include "tests/unit/operator/webhook/serving.h"

namespace larder::webhook {
namespace {

using namespace pki;

using namespace std::chrono_literals;

bool within_10_s(const auto& holds) {
  for (int i = 0; i < 1000 && !holds(); ++i) std::this_thread::sleep_for(10ms);
  return holds();
}

class CertificateLoaderTest : public testing::Test {
 protected:
  CertificateLoaderTest() { std::filesystem::create_directories(folder_); }
  ~CertificateLoaderTest() override { std::filesystem::remove_all(folder_); }

  // Like a kubelet: a new folder, and then a link to the folder.
  void mount(const std::string& certificate, const std::string& key) {
    const std::filesystem::path data = folder_ / ("..data_" + std::to_string(++mounted_));
    std::filesystem::create_directory(data);
    std::ofstream(data / "tls.crt") << certificate;
    std::ofstream(data / "tls.key") << key;
    std::filesystem::create_directory_symlink(data, folder_ / "..data_tmp");
    std::filesystem::rename(folder_ / "..data_tmp", folder_ / "..data");
    for (const char* name : {"tls.crt", "tls.key"})
      if (!std::filesystem::exists(folder_ / name))
        std::filesystem::create_symlink(std::filesystem::path("..data") / name, folder_ / name);
  }
  static KeyPair leaf(std::int64_t seconds) { return TestAuthority().leaf(kServerName, seconds); }
  static std::int64_t end_of(const KeyPair& pair) {
    return read_certificate(pair.certificate)->validity.not_after_s;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("larder-loader-" + std::to_string(::getpid()));
  int mounted_ = 0;
  TlsAcceptor acceptor_;
};

TEST_F(CertificateLoaderTest, RotatedFilesAreServed) {
  const CertificateLoader loader(certificate_in_directory(folder_.string()), acceptor_, 10);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(acceptor_.ready()) << "there is no certificate yet";
  const KeyPair first = leaf(1000), second = leaf(2000);
  mount(first.certificate, first.key);
  EXPECT_TRUE(within_10_s([&] { return acceptor_.not_after_s() == end_of(first); }));
  mount(second.certificate, second.key);
  EXPECT_TRUE(within_10_s([&] { return acceptor_.not_after_s() == end_of(second); }));
}

// Between its looks of 10 s.
TEST_F(CertificateLoaderTest, ReloadsOnRequest) {
  const KeyPair first = leaf(1000), second = leaf(2000);
  mount(first.certificate, first.key);
  CertificateLoader loader(certificate_in_directory(folder_.string()), acceptor_);
  ASSERT_TRUE(within_10_s([&] { return acceptor_.ready(); }));
  mount(second.certificate, second.key);
  const auto begin = std::chrono::steady_clock::now();
  loader.look_soon();
  EXPECT_TRUE(within_10_s([&] { return acceptor_.not_after_s() == end_of(second); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
}

TEST_F(CertificateLoaderTest, MismatchedKeyIsNotServed) {
  const KeyPair good = leaf(1000), other = leaf(2000);
  mount(good.certificate, good.key);
  const CertificateLoader loader(certificate_in_directory(folder_.string()), acceptor_, 10);
  ASSERT_TRUE(within_10_s([&] { return acceptor_.ready(); }));
  // like a certificate without a readable end
  const KeyPair without_end = *make_authority("a", {-86400, 0});
  for (const auto& [certificate, key] : {std::pair(other.certificate, good.key),
                                         {"nonsense", "nonsense"},
                                         {other.certificate, ""},
                                         {without_end.certificate, without_end.key}}) {
    mount(certificate, key);
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(acceptor_.not_after_s(), end_of(good));
  }
  mount(other.certificate, other.key);
  EXPECT_TRUE(within_10_s([&] { return acceptor_.not_after_s() == end_of(other); }));
}

TEST_F(CertificateLoaderTest, AnErrorNamesTheFile) {
  const ReadCertificate read = certificate_in_directory(folder_.string());
  EXPECT_NE(read().status().text().find((folder_ / "tls.crt").string()), std::string::npos);
  std::ofstream(folder_ / "tls.crt") << std::string(1 << 20, 'x');
  EXPECT_EQ(read().status().code(), Code::kOutOfRange);
}

// A client with the right to write the Secret changes the Secret over and over.
// covers F-225
TEST_F(CertificateLoaderTest, ChangingCertificateDoesNotFloodTheLog) {
  std::atomic<int> reads = 0;
  const KeyPair one = leaf(1000), two = leaf(2000);
  const ReadCertificate changing = [&]() -> Result<KeyPair> {
    switch (reads++ % 4) {
      case 0: return one;
      case 1: return two;
      case 2: return Status(Code::kNotFound, "the Secret has no tls.key yet");
      default: return Status(Code::kUnavailable, "the API server is away");
    }
  };
  base::tell_all_left_out();  // of other tests
  testing::internal::CaptureStderr();
  {
    const CertificateLoader loader(changing, acceptor_, 1);
    EXPECT_TRUE(within_10_s([&] { return reads >= 40; }));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::ranges::count(log, '\n'), 4) << log;
  EXPECT_NE(log.find("no tls.key yet; the one before is served on"), std::string::npos) << log;
}

TEST_F(CertificateLoaderTest, EndsAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  { const CertificateLoader loader(certificate_in_directory(folder_.string()), acceptor_); }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

}  // namespace
}  // namespace larder::webhook
