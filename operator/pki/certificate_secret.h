// CertificateBundle: the authorities and the leaf in a Secret of the operator, and the steps of
// rotation.h on them. Pure except for the randomness of new keys; thread-safe.
//
// Keys of the Secret: ca.crt (all authorities, newest last), ca.key (of the newest), tls.crt and
// tls.key (the leaf).
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/pki/rotation.h"
#include "shim/base/status.h"

namespace larder::pki {

// The subjects of the certificates that the operator makes for one purpose.
struct Subjects {
  std::string authority, leaf;     // common names
  std::vector<std::string> names;  // DNS names of the leaf; not empty
  LeafUse use = LeafUse::kServer;
};

struct CertificateBundle {
  std::vector<std::string> authorities;  // PEM, newest last
  std::string authority_key;             // of the newest
  KeyPair leaf;
  Held held;  // what next_step() judges; the same order of authorities
};

// Reads a Secret; null gives an empty bundle. Unreadable parts count as missing. A leaf with other
// names than `subjects` counts as missing, too.
CertificateBundle read_bundle(const api::Object& secret, const Subjects& subjects);

// Does a step in memory. After an error the bundle is partly changed.
Status advance(CertificateBundle& bundle, const Step& step, std::int64_t now_s,
               const Lifetimes& lifetimes, const Subjects& subjects);

// Secret.data of the bundle.
api::Object secret_data(const CertificateBundle& bundle);

// The authorities as one PEM text.
std::string bundle_text(const std::vector<std::string>& certificates);

}  // namespace larder::pki
