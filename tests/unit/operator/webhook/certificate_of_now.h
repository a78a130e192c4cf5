// Certificates of this hour, for tests: an authority and its leaves.
#pragma once

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "operator/pki/certificates.h"

namespace larder::webhook {

inline constexpr const char* kServerName = "larder-webhook.sys.svc";

class TestAuthority {
 public:
  static pki::Validity now_and(std::int64_t seconds) {
    return {std::time(nullptr) - 60, std::time(nullptr) + seconds};
  }

  TestAuthority() : pair_(pki::make_authority("test", now_and(86400)).value()) {}
  const std::string& bundle() const { return pair_.certificate; }
  pki::KeyPair leaf(const std::string& name = kServerName, std::int64_t seconds = 3600) const {
    return pki::make_leaf(pair_, {"test", {name}}, now_and(seconds)).value();
  }

 private:
  pki::KeyPair pair_;
};

}  // namespace larder::webhook
