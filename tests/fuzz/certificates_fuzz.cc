// The content of the webhook's Secret or of cert-manager's files: certificates and keys, as PEM or
// as the DER inside.
//
// Promises: a bundle is a bounded number of certificates; a refusal has a reason and leaves the
// served certificate; a served certificate can be read and has its key. Input: a byte that marks
// which of the two is text already; two of the certificate's length; the certificate; the key.
#include "operator/api/base64.h"
#include "operator/pki/certificates.h"
#include "operator/webhook/tls_acceptor.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using pki::KeyPair;

enum Form : std::uint8_t { kCertificateIsText = 1, kKeyIsText = 2 };

std::string pem(const std::string& der, const std::string& what) {
  constexpr std::size_t kLine = 64;
  const std::string digits = api::to_base64(der);
  std::string text = "-----BEGIN " + what + "-----\n";
  for (std::size_t at = 0; at < digits.size(); at += kLine) text += digits.substr(at, kLine) + "\n";
  return text + "-----END " + what + "-----\n";
}

void check_bundle(const std::string& text) {
  const std::vector<std::string> all = pki::split_bundle(text);
  must(all.size() <= pki::kMostCertificates, "a bundle is bounded");
  for (const std::string& one : all) {
    must(one.starts_with("-----BEGIN CERTIFICATE-----"),
         "each certificate begins at its own begin");
    must(pki::split_bundle(one).size() == 1, "each is one");
    if (const auto facts = pki::read_certificate(one); facts.ok() && facts->authority)
      pki::is_signed_by(all.front(), one);
  }
}

void check_served(const KeyPair& pair) {
  static webhook::TlsAcceptor acceptor;  // with a good one to begin with
  static const bool kBegun = acceptor.serve(*pki::make_authority("a", {0, 4'000'000'000})).ok();
  must(kBegun && acceptor.ready(), "a good one is served");
  const std::int64_t before = acceptor.not_after_s();
  const Status served = acceptor.serve(pair);
  if (!served.ok()) {
    must(!served.text().empty() && acceptor.not_after_s() == before,
         "a refusal has a reason, and the served certificate stays");
    return;
  }
  must(acceptor.ready(), "a loader with a certificate says so");
  must(pki::read_certificate(pair.certificate).ok(), "a served certificate can be read");
  must(pki::belong_together(pair), "a served certificate has its key");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  const std::string certificate = input.take_text(input.take<std::uint16_t>());
  const std::string key = input.rest();
  const KeyPair pair{
      (form & kCertificateIsText) != 0 ? certificate : pem(certificate, "CERTIFICATE"),
      (form & kKeyIsText) != 0 ? key : pem(key, "PRIVATE KEY")};
  check_bundle(pair.certificate);
  check_served(pair);
  return 0;
}
