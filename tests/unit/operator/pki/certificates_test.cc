#include "operator/pki/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace larder::pki {
namespace {

using testing::ElementsAre;

constexpr Validity kValidity{1'700'000'000, 1'900'000'000};

KeyPair authority() {
  const Result<KeyPair> made = make_authority("authority", kValidity);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? *made : KeyPair();
}
KeyPair leaf_of(const KeyPair& by, LeafUse use = LeafUse::kServer) {
  const Result<KeyPair> made =
      make_leaf(by, {"leaf", {"larder.sys.svc", "larder"}, use}, {1'700'000'000, 1'800'000'000});
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? *made : KeyPair();
}

TEST(CertificatesTest, GeneratedCertificatesHaveTheRequestedFields) {
  const KeyPair ca = authority(), leaf = leaf_of(ca);
  const Result<CertificateFacts> of_ca = read_certificate(ca.certificate),
                                 of_leaf = read_certificate(leaf.certificate);
  ASSERT_TRUE(of_ca.ok() && of_leaf.ok());
  EXPECT_TRUE(of_ca->authority);
  EXPECT_FALSE(of_leaf->authority);
  EXPECT_EQ(of_ca->validity, kValidity);
  EXPECT_EQ(of_leaf->validity.not_after_s, 1'800'000'000);
  EXPECT_THAT(of_leaf->names, ElementsAre("larder.sys.svc", "larder"));
}

TEST(CertificatesTest, SignaturesAndKeysAreMatched) {
  const KeyPair one = authority(), other = authority(), leaf = leaf_of(one);
  EXPECT_TRUE(is_signed_by(leaf.certificate, one.certificate));
  EXPECT_FALSE(is_signed_by(leaf.certificate, other.certificate))
      << "of the same name, but another";
  EXPECT_TRUE(belong_together(leaf));
  EXPECT_FALSE(belong_together({leaf.certificate, one.key}));
}

TEST(CertificatesTest, BundleIsSplitIntoCertificates) {
  const KeyPair one = authority(), other = authority();
  EXPECT_THAT(split_bundle(one.certificate + "# between\n" + other.certificate),
              ElementsAre(one.certificate, other.certificate));
  EXPECT_THAT(split_bundle(""), ElementsAre());
  EXPECT_THAT(split_bundle("-----BEGIN CERTIFICATE-----\nnever ends"), ElementsAre());
  std::string many;
  for (int i = 0; i < 40; ++i) many += one.certificate;
  EXPECT_EQ(split_bundle(many).size(), kMostCertificates);
}

TEST(CertificatesTest, InvalidCertificateIsAnError) {
  EXPECT_EQ(read_certificate("nonsense").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(read_certificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
                .status()
                .code(),
            Code::kInvalidArgument);
  EXPECT_FALSE(make_leaf({"nonsense", "nonsense"}, {"a", {"a"}}, kValidity).ok());
  EXPECT_FALSE(make_leaf(authority(), {"a", {}}, kValidity).ok());
  EXPECT_FALSE(is_signed_by("nonsense", "nonsense"));
  EXPECT_FALSE(belong_together({}));
}

std::filesystem::path make_folder() {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("larder-certificates-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  return folder;
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// OpenSSL's own program is stricter than its library: purposes, key identifiers, path lengths.
bool openssl_takes(const KeyPair& ca, const KeyPair& leaf, const std::string& purpose) {
  const std::filesystem::path folder = make_folder();
  std::ofstream(folder / "ca") << ca.certificate;
  std::ofstream(folder / "leaf") << leaf.certificate;
  const std::string command = "openssl verify -x509_strict -purpose " + purpose +
                              " -verify_hostname larder.sys.svc -attime 1750000000 -CAfile " +
                              (folder / "ca").string() + " " + (folder / "leaf").string() +
                              " >/dev/null 2>&1";
  const bool takes = std::system(command.c_str()) == 0;
  std::filesystem::remove_all(folder);
  return takes;
}

// OpenSSL's own program is stricter than its library: purposes, key identifiers, path lengths.
TEST(CertificatesTest, OpensslAcceptsTheCertificates) {
  const KeyPair ca = authority(), server = leaf_of(ca),
                both = leaf_of(ca, LeafUse::kServerAndClient);
  EXPECT_TRUE(openssl_takes(ca, server, "sslserver"));
  EXPECT_FALSE(openssl_takes(ca, server, "sslclient"));
  EXPECT_TRUE(openssl_takes(ca, both, "sslserver"));
  EXPECT_TRUE(openssl_takes(ca, both, "sslclient"));
}

// Someone put an authority of their own into the Secret: its key identifier is optional.
// covers F-456
TEST(CertificatesTest, AuthorityWithoutKeyIdentifierSigns) {
  const std::filesystem::path folder = make_folder();
  std::ofstream(folder / "settings") << "[req]\ndistinguished_name=name\nx509_extensions=more\n"
                                        "[name]\n[more]\nbasicConstraints=critical,CA:TRUE\n"
                                        "subjectKeyIdentifier=none\n";
  const std::string command = "cd " + folder.string() +
                              " && openssl req -x509 -config settings -newkey ec -pkeyopt "
                              "ec_paramgen_curve:P-256 -nodes -subj /CN=authority -keyout key "
                              "-out ca >/dev/null 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const KeyPair ca{content_of(folder / "ca"), content_of(folder / "key")};
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(is_signed_by(leaf_of(ca).certificate, ca.certificate));
}

}  // namespace
}  // namespace larder::pki
