// Certificates of this hour, for tests: an authority and its leaves.
#pragma once

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "operator/webhook/certificates.h"

namespace larder::webhook {

inline constexpr const char* kServerName = "larder-webhook.sys.svc";

class TestAuthority {
 public:
  static Validity now_and(std::int64_t seconds) {
    return {std::time(nullptr) - 60, std::time(nullptr) + seconds};
  }

  TestAuthority() : pair_(make_authority(now_and(86400)).value()) {}
  const std::string& bundle() const { return pair_.certificate; }
  KeyPair leaf(const std::string& name = kServerName, std::int64_t seconds = 3600) const {
    return make_leaf(pair_, {name}, now_and(seconds)).value();
  }

 private:
  KeyPair pair_;
};

}  // namespace larder::webhook
