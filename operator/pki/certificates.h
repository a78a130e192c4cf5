// Certificates: creation and parsing. rotation.h decides when to make a certificate. Pure except
// for randomness; thread-safe.
//
// ECDSA over P-256, SHA-256, PEM. Times are seconds since 1970.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::pki {

struct KeyPair {            // PEM
  std::string certificate;  // for a leaf, the chain may follow
  std::string key;
  bool operator==(const KeyPair&) const = default;
};

struct Validity {
  std::int64_t not_before_s = 0, not_after_s = 0;
  bool operator==(const Validity&) const = default;
};

// The sides of a connection at which a leaf stands.
enum class LeafUse { kServer, kServerAndClient };

struct LeafSubject {
  std::string common_name;
  std::vector<std::string> names;  // DNS; without commas
  LeafUse use = LeafUse::kServer;
};

// An authority that may sign only leaves, and a leaf.
Result<KeyPair> make_authority(const std::string& common_name, const Validity& validity);
Result<KeyPair> make_leaf(const KeyPair& authority, const LeafSubject& subject,
                          const Validity& validity);

struct CertificateFacts {
  Validity validity;
  std::vector<std::string> names;  // DNS
  bool authority = false;
};

// The first certificate of a PEM text. kInvalidArgument: none found.
Result<CertificateFacts> read_certificate(std::string_view pem);

// The certificates of a bundle in order, without other text. At most kMostCertificates.
inline constexpr std::size_t kMostCertificates = 16;
std::vector<std::string> split_bundle(std::string_view pem);

// Also false if one of the certificates is unreadable.
bool is_signed_by(std::string_view certificate, std::string_view authority);
bool belong_together(const KeyPair& pair);

}  // namespace larder::pki
