// A real etcd and kube-apiserver of a test's own, by tests/component/kube/apiserver.sh.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "operator/k8s/curl_transport.h"
#include "operator/k8s/http_client.h"
#include "operator/k8s/metrics.h"

namespace larder::kube_test {

// A child process; killed by the destructor.
class Child {
 public:
  Child(const std::vector<std::string>& command, const std::string& output);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void signal(int number) const;
  // The exit status; -1 by a signal.
  int wait();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

class ControlPlane {
 public:
  // Null without binaries, which .ci/kubernetes.sh apiserver makes. Throws if the servers do not
  // come up.
  static std::unique_ptr<ControlPlane> start();
  // The same, with a record of all writes and their users.
  static std::unique_ptr<ControlPlane> start_audited();
  ~ControlPlane();

  const std::string& folder() const { return folder_; }
  std::string kubeconfig() const { return folder_ + "/admin.kubeconfig"; }
  // The kubeconfig of another administrator, known to the record by this name; the file is made.
  std::string kubeconfig_of(const std::string& user) const;
  // An audit.k8s.io/v1 Event a line, of each answered request that may write. REQUIRES
  // start_audited().
  std::string audit_log() const { return folder_ + "/audit.log"; }
  // Kills the server; another begins with the same data and port.
  void restart_apiserver();
  // Forgets every revision before now, in etcd.
  void compact();

 private:
  static std::unique_ptr<ControlPlane> start_by(std::vector<std::string> command);
  explicit ControlPlane(std::string folder) : folder_(std::move(folder)) {}
  pid_t pid_of(const std::string& name) const;
  std::vector<std::string> command_of(const std::string& name) const;

  const std::string folder_;
  std::unique_ptr<Child> restarted_;
};

// A client of the server.
struct Connection {
  explicit Connection(const ControlPlane& plane, k8s::ClientOptions options = {});

  base::MonotonicClock clock;
  k8s::Metrics metrics;
  std::unique_ptr<k8s::CredentialSource> credentials;
  std::unique_ptr<k8s::CurlTransport> transport;
  std::unique_ptr<k8s::HttpClient> client;
};

}  // namespace larder::kube_test
