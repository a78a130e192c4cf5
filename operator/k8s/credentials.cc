#include "operator/k8s/credentials.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

#include "operator/k8s/small_file.h"
#include "sidecar/base/log_throttle.h"

namespace larder::k8s {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_one_line(const std::string& token) {
  return token.find_first_of("\r\n") == std::string::npos;
}

// The environment of a pod has an IPv6 address without brackets, which a URL needs.
Result<std::unique_ptr<CredentialSource>> CredentialSource::in_cluster(const std::string& folder) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST"),
                    port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty())
    return Status(Code::kFailedPrecondition,
                  "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no "
                  "pod, give --kubeconfig FILE");
  Credentials first;
  first.server =
      "https://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
  auto source = std::make_unique<CredentialSource>(std::move(first));
  const std::string hint = " (the pod needs automountServiceAccountToken: true)";
  if (Status status = source->follow(folder + "/token", &Credentials::token); !status.ok())
    return Status(status.code(), status.text() + hint);
  if (Status status = source->follow(folder + "/ca.crt", &Credentials::ca_pem); !status.ok())
    return Status(status.code(), status.text() + hint);
  return source;
}

// Inode and device tell a replaced file from the former one. The kubelet replaces projected files
// by a renamed symbolic link, with times that may be equal.
Result<CredentialSource::Stamp> CredentialSource::stamp_of(const std::string& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return Status::from_errno(errno, file);
  return Stamp{found.st_ino, static_cast<std::uint64_t>(found.st_size), found.st_dev,
               found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

// An error at the start ends the operator with the name of the file. Later errors keep the earlier
// text: see current().
Status CredentialSource::follow(const std::string& file, std::string Credentials::*field) {
  const Result<Stamp> stamp = stamp_of(file);
  if (!stamp.ok()) return stamp.status();
  Result<std::string> text = read_small_file(file);
  if (!text.ok()) return text.status();
  if (trimmed(*text).empty()) return {Code::kInvalidArgument, file + " is empty"};
  // A line end inside a token would end the header field Authorization and begin another one
  // (F-250).
  if (field == &Credentials::token && !is_one_line(trimmed(*text)))
    return {Code::kInvalidArgument, file + " has several lines: a token is one"};
  const std::lock_guard lock(mutex_);
  followed_.push_back({file, field, *stamp});
  take(followed_.back(), std::move(*text));
  return {};
}

void CredentialSource::take(const Followed& followed, std::string text) {
  const bool token = followed.field == &Credentials::token;
  if (token) text = trimmed(text);
  // A rotated token with a line end is ignored, since a running operator has no better choice than
  // the earlier token.
  if ((*now_).*followed.field == text || (token && !is_one_line(text))) return;
  Credentials next = *now_;
  next.*followed.field = std::move(text);
  // Connections keep the identity of their handshake. A new version makes CurlTransport drop the
  // idle connections; a new token needs no new connection.
  if (!token) ++next.tls_version;
  now_ = std::make_shared<const Credentials>(std::move(next));
}

std::shared_ptr<const Credentials> CredentialSource::current() {
  const std::lock_guard lock(mutex_);
  // The stamps are compared with every request: a stat() costs microseconds, and a rotation needs
  // no watch.
  for (Followed& followed : followed_) {
    const Result<Stamp> stamp = stamp_of(followed.file);
    if (stamp.ok() && *stamp == followed.stamp) continue;
    Result<std::string> text =
        stamp.ok() ? read_small_file(followed.file) : Result<std::string>(stamp.status());
    // The kubelet's rotation never shows an empty file. An empty file is a half-written file of
    // another tool.
    const bool failed = !text.ok() || trimmed(*text).empty();
    if (failed && !followed.failed)
      base::log_refusal("credentials", followed.file, base::LogLevel::kWarning,
                        "credentials: a rotated file cannot be read, the earlier text stays in use",
                        {{"file", followed.file}});
    followed.failed = failed;
    if (failed) continue;
    followed.stamp = *stamp;
    take(followed, std::move(*text));
  }
  return now_;
}

}  // namespace larder::k8s
