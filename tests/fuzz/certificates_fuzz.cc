// What stands in the webhook's Secret or in cert-manager's files: certificates and keys, as PEM or as the DER inside it.
//
// Promises: a bundle is a bounded number of certificates; a refusal says why and leaves what was served before; what is served has a
// certificate that can be read and a key that belongs to it.
// Input: a byte that says which of the two is text already; two of the certificate's length; the certificate; the key.
#include "operator/api/base64.h"
#include "operator/webhook/certificates.h"
#include "operator/webhook/tls_acceptor.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using webhook::KeyPair;

enum Form : std::uint8_t { kCertificateIsText = 1, kKeyIsText = 2 };

std::string pem(const std::string& der, const std::string& what) {
  constexpr std::size_t kLine = 64;
  const std::string digits = api::to_base64(der);
  std::string text = "-----BEGIN " + what + "-----\n";
  for (std::size_t at = 0; at < digits.size(); at += kLine) text += digits.substr(at, kLine) + "\n";
  return text + "-----END " + what + "-----\n";
}

void check_bundle(const std::string& text) {
  const std::vector<std::string> all = webhook::split_bundle(text);
  must(all.size() <= webhook::kMostCertificates, "a bundle is bounded");
  for (const std::string& one : all) {
    must(one.starts_with("-----BEGIN CERTIFICATE-----"), "each begins where it begins");
    must(webhook::split_bundle(one).size() == 1, "each is one");
    if (const auto facts = webhook::read_certificate(one); facts.ok() && facts->authority)
      webhook::is_signed_by(all.front(), one);
  }
}

void check_served(const KeyPair& pair) {
  static webhook::TlsAcceptor acceptor;  // with a good one to begin with
  static const bool kBegun = acceptor.serve(*webhook::make_authority({0, 4'000'000'000})).ok();
  must(kBegun && acceptor.ready(), "a good one is served");
  const std::int64_t before = acceptor.not_after_s();
  const Status served = acceptor.serve(pair);
  if (!served.ok()) {
    must(!served.text().empty() && acceptor.not_after_s() == before, "a refusal says why, and what was served stays");
    return;
  }
  must(acceptor.ready(), "who serves one says so");
  must(webhook::read_certificate(pair.certificate).ok(), "what is served can be read");
  must(webhook::belong_together(pair), "what is served has its key");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t form = input.byte();
  const std::string certificate = input.take_text(input.take<std::uint16_t>());
  const std::string key = input.rest();
  const KeyPair pair{(form & kCertificateIsText) != 0 ? certificate : pem(certificate, "CERTIFICATE"),
                     (form & kKeyIsText) != 0 ? key : pem(key, "PRIVATE KEY")};
  check_bundle(pair.certificate);
  check_served(pair);
  return 0;
}
