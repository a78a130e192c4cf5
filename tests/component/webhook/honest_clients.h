// Honest clients of the webhook, like the API server: reviews at a steady rate over kept
// connections, and one now and then over a new connection. And the server of server_process.cc for
// these clients.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::component_test {

// The server in a process of its own, in a folder with the life of the object.
class WebhookServer {
 public:
  // `program`: server_process. Waits until the server serves.
  explicit WebhookServer(const std::string& program);
  ~WebhookServer();
  WebhookServer(const WebhookServer&) = delete;
  WebhookServer& operator=(const WebhookServer&) = delete;

  const std::string& address() const { return address_; }  // empty: the server did not start
  const std::string& bundle() const { return bundle_; }
  double resident_mib() const;

 private:
  std::string folder_, address_, bundle_;
  int pid_ = -1;
};

struct HonestReview {
  std::string body;
  std::string answer;  // the one right one
};

// Reviews of KServe's pods of the injector's golden files, each answered in this process with a
// patch that gives the pod its cache.
std::vector<HonestReview> kserve_reviews(const std::string& repository);

struct Served {
  std::vector<double> ms;  // of each review: from its due time to the last byte of its answer
  std::size_t failed = 0;  // no answer within TlsClient::kWaitMs, or another than the right one
  std::string first_failure;
};

// `rate` reviews a second for the given time, each sent at its due time, whether or not earlier
// ones are answered, over four connections; one in ten opens a connection of its own.
Served send_reviews(const WebhookServer& server, const std::vector<HonestReview>& reviews,
                    double rate, double seconds);

}  // namespace larder::component_test
