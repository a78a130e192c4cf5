// OperatorCluster: a kube-apiserver of the benchmark's own with our definitions, an operator and a larderd beside it; all end with it.
//
// Thread-compatible.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "operator/k8s/curl_transport.h"
#include "operator/k8s/http_client.h"

namespace larder::bench {

inline constexpr const char* kNamespace = "bench";

std::string pool_name(int i);
api::Object plain_pool(int i);
// Makes the i-th pod of `pools` pools as the injector would, and says that it runs.
Status run_pod(k8s::ApiClient& client, int i, int pools);

class OperatorCluster {
 public:
  // `programs`: a folder with larder-operator and larderd. Ends the process where it cannot be made.
  OperatorCluster(std::string programs, std::string repository);
  ~OperatorCluster();
  OperatorCluster(const OperatorCluster&) = delete;
  OperatorCluster& operator=(const OperatorCluster&) = delete;

  k8s::ApiClient& client() { return *client_; }
  // `work` for 0..count-1, some at a time. A failure is told and remembered.
  void each(int count, const std::function<Status(k8s::ApiClient&, int)>& work);
  void start_operator();
  double operator_rss_mib() const;
  double operator_cpu_s() const;
  void fail(const std::string& why);
  bool failed() const { return failed_; }

 private:
  [[noreturn]] void give_up(const std::string& why);
  void install();
  pid_t start(const std::vector<std::string>& words, const std::string& log, const std::vector<std::string>& environment = {});

  const std::string programs_, repository_, folder_;
  base::MonotonicClock clock_;
  std::unique_ptr<k8s::CredentialSource> credentials_;
  std::unique_ptr<k8s::CurlTransport> transport_;
  std::unique_ptr<k8s::HttpClient> client_;
  pid_t operator_ = 0, larderd_ = 0;
  bool failed_ = false;
};

}  // namespace larder::bench
