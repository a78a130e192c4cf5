// Certificates: made and read, no more. When to make which is decided in rotation.h. Pure but for randomness; thread-safe.
//
// ECDSA over P-256, SHA-256, PEM. Times are seconds since 1970.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/status.h"

namespace larder::webhook {

struct KeyPair {            // PEM
  std::string certificate;  // of a leaf: what follows it is its chain
  std::string key;
  bool operator==(const KeyPair&) const = default;
};

struct Validity {
  std::int64_t not_before_s = 0, not_after_s = 0;
  bool operator==(const Validity&) const = default;
};

// An authority for leaves only, and a leaf of it: a server of these DNS names.
Result<KeyPair> make_authority(const Validity& validity);
Result<KeyPair> make_leaf(const KeyPair& authority, const std::vector<std::string>& names, const Validity& validity);

struct CertificateFacts {
  Validity validity;
  std::vector<std::string> names;  // DNS
  bool authority = false;
};

// The first of a PEM text. kInvalidArgument where there is none.
Result<CertificateFacts> read_certificate(std::string_view pem);

// Each of a bundle, in its order, without what stands between them. At most kMostCertificates.
inline constexpr std::size_t kMostCertificates = 16;
std::vector<std::string> split_bundle(std::string_view pem);

// False too where one of them cannot be read.
bool is_signed_by(std::string_view certificate, std::string_view authority);
bool belong_together(const KeyPair& pair);

}  // namespace larder::webhook
