#include "operator/pki/certificates.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>

namespace larder::pki {
namespace {

struct Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(BIGNUM* number) const { BN_free(number); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Bio = std::unique_ptr<BIO, Free>;

constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
constexpr std::string_view kEnd = "-----END CERTIFICATE-----";

// OpenSSL's errors are a queue of the thread. An entry that stays would be taken for the error of a
// later connection.
Status failed(const char* what) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return {Code::kInternal,
          std::string(what) + ": " + (reason == nullptr ? "OpenSSL failed" : reason)};
}

// The BIO reads the text in place; the text outlives the BIO.
Bio reader(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Unreadable text gives null, and OpenSSL's error queue stays empty.
Certificate parse_certificate(std::string_view pem) {
  Certificate certificate(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}
Key parse_key(std::string_view pem) {
  // Without this callback, OpenSSL would ask for a password at the terminal.
  const auto no_password = [](char*, int, int, void*) { return 0; };
  Key key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return key;
}

std::string written(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_ctrl(bio, BIO_CTRL_INFO, 0, static_cast<void*>(&data));
  return {data, static_cast<std::size_t>(size > 0 ? size : 0)};
}

// RFC 5280, 4.1.2.2: a serial number is positive and has at most 20 bytes.
bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return false;
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);  // positive, and of full length
  const std::unique_ptr<BIGNUM, Free> number(
      BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_name(X509_NAME* name, const std::string& common) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(common.data());
  return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, bytes,
                                    static_cast<int>(common.size()), -1, 0) == 1;
}

// OpenSSL's text form of extensions ("critical,CA:TRUE"), as in openssl.cnf; without a
// configuration file, so no text can name other sections.
bool add_extension(X509* certificate, X509* authority, int which, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, authority, certificate, nullptr, nullptr, 0);
  X509V3_set_ctx_nodb(&context);
  const std::unique_ptr<X509_EXTENSION, Free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Sets all fields except extensions and signature.
Certificate begin_certificate(EVP_PKEY* key, const std::string& common, const Validity& validity) {
  Certificate certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !set_serial(certificate.get()) ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), validity.not_before_s) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), validity.not_after_s) == nullptr ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      !set_name(X509_get_subject_name(certificate.get()), common))
    return nullptr;
  return certificate;
}

// PKCS #8 without a password: the key goes into the Secret.
Result<KeyPair> sign(Certificate certificate, EVP_PKEY* key, EVP_PKEY* by) {
  if (X509_sign(certificate.get(), by, EVP_sha256()) == 0) return failed("to sign a certificate");
  const Bio certificate_pem(BIO_new(BIO_s_mem())), key_pem(BIO_new(BIO_s_mem()));
  if (certificate_pem == nullptr || key_pem == nullptr ||
      PEM_write_bio_X509(certificate_pem.get(), certificate.get()) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_pem.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failed("to write a certificate");
  return KeyPair{written(certificate_pem.get()), written(key_pem.get())};
}

// 0 for a time that cannot be read: such a certificate counts as expired (is_valid), and
// TlsAcceptor refuses it.
std::int64_t seconds(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? ::timegm(&parts) : 0;
}

std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> names;
  const std::unique_ptr<GENERAL_NAMES, Free> all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type != GEN_DNS) continue;
    const auto* text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
    names.emplace_back(text, static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
  }
  return names;
}

}  // namespace

// pathlen:0 and keyCertSign: a stolen authority key signs leaves, and no further authorities.
Result<KeyPair> make_authority(const std::string& common_name, const Validity& validity) {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return failed("to make a key");
  Certificate certificate = begin_certificate(key.get(), common_name, validity);
  if (certificate == nullptr ||
      X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get())) != 1 ||
      !add_extension(certificate.get(), certificate.get(), NID_basic_constraints,
                     "critical,CA:TRUE,pathlen:0") ||
      !add_extension(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign") ||
      !add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash"))
    return failed("to make an authority");
  return sign(std::move(certificate), key.get(), key.get());
}

Result<KeyPair> make_leaf(const KeyPair& authority, const LeafSubject& subject,
                          const Validity& validity) {
  const Certificate by = parse_certificate(authority.certificate);
  const Key by_key = parse_key(authority.key), key(EVP_EC_gen("P-256"));
  if (by == nullptr || by_key == nullptr || subject.names.empty())
    return Status(Code::kInvalidArgument, "no authority to sign with, or no names");
  if (key == nullptr) return failed("to make a key");
  // The names are made from names of Kubernetes, so no comma can add a further alternative name.
  std::string alternatives;
  for (const std::string& name : subject.names)
    alternatives += (alternatives.empty() ? "DNS:" : ",DNS:") + name;
  // OpenSSL refuses a client whose certificate is for servers alone.
  const std::string usage =
      subject.use == LeafUse::kServerAndClient ? "serverAuth,clientAuth" : "serverAuth";
  // An authority of another writer may have no key identifier: the leaf then has its issuer's name.
  Certificate certificate = begin_certificate(key.get(), subject.common_name, validity);
  if (certificate == nullptr ||
      X509_set_issuer_name(certificate.get(), X509_get_subject_name(by.get())) != 1 ||
      !add_extension(certificate.get(), by.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(certificate.get(), by.get(), NID_key_usage, "critical,digitalSignature") ||
      !add_extension(certificate.get(), by.get(), NID_ext_key_usage, usage) ||
      !add_extension(certificate.get(), by.get(), NID_subject_key_identifier, "hash") ||
      !add_extension(certificate.get(), by.get(), NID_authority_key_identifier, "keyid,issuer") ||
      !add_extension(certificate.get(), by.get(), NID_subject_alt_name, alternatives))
    return failed("to make a certificate");
  return sign(std::move(certificate), key.get(), by_key.get());
}

// X509_check_ca() also accepts old forms of authorities; the manager made its own with
// basicConstraints.
Result<CertificateFacts> read_certificate(std::string_view pem) {
  const Certificate certificate = parse_certificate(pem);
  if (certificate == nullptr) return Status(Code::kInvalidArgument, "no certificate in PEM");
  return CertificateFacts{{seconds(X509_get0_notBefore(certificate.get())),
                           seconds(X509_get0_notAfter(certificate.get()))},
                          names_of(certificate.get()),
                          X509_check_ca(certificate.get()) != 0};
}

// A bundle may have comments between certificates, as OpenSSL writes them.
std::vector<std::string> split_bundle(std::string_view pem) {
  std::vector<std::string> all;
  for (std::size_t at = 0; all.size() < kMostCertificates;) {
    const std::size_t begin = pem.find(kBegin, at),
                      end = pem.find(kEnd, begin == pem.npos ? at : begin);
    if (begin == pem.npos || end == pem.npos) break;
    at = end + kEnd.size();
    all.push_back(std::string(pem.substr(begin, at - begin)) + "\n");
  }
  return all;
}

// X509_verify() checks the signature alone, no times: rotation.cc judges the times.
bool is_signed_by(std::string_view certificate, std::string_view authority) {
  const Certificate leaf = parse_certificate(certificate), by = parse_certificate(authority);
  if (leaf == nullptr || by == nullptr) return false;
  const bool is = X509_verify(leaf.get(), X509_get0_pubkey(by.get())) == 1;
  ERR_clear_error();
  return is;
}

bool belong_together(const KeyPair& pair) {
  const Certificate certificate = parse_certificate(pair.certificate);
  const Key key = parse_key(pair.key);
  const bool do_belong = certificate != nullptr && key != nullptr &&
                         X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return do_belong;
}

}  // namespace larder::pki
