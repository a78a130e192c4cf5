#include "operator/webhook/certificate_loader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "operator/api/base64.h"
#include "sidecar/base/log_throttle.h"

namespace larder::webhook {
namespace {

constexpr std::size_t kMostFileBytes = 256 * 1024;

// The folder is a mount of the kubelet, and its files may be anything.
Result<std::string> read_file(const std::string& path) {
  // Non-blocking, since opening a pipe would wait for a writer.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return Status::from_errno(errno, "--certificate-directory: " + path);
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0) return Status::from_errno(errno, "--certificate-directory: " + path);
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kMostFileBytes)
      return Status(Code::kOutOfRange, "--certificate-directory: " + path +
                                           " is larger than 256 KiB: is the file a certificate?");
  }
}

}  // namespace

// Every replica answers reviews, so every replica reads the Secret.
ReadCertificate certificate_in_secret(k8s::ApiClient& client, std::string ns, std::string name) {
  return [&client, ns = std::move(ns), name = std::move(name)]() -> Result<pki::KeyPair> {
    const Result<api::Object> secret = client.get(k8s::resources::kSecrets, ns, name);
    if (!secret.ok()) return secret.status();
    pki::KeyPair pair;
    for (const auto& [key, into] :
         {std::pair("tls.crt", &pair.certificate), std::pair("tls.key", &pair.key)}) {
      const api::Object& data = api::at(*secret, "data");
      const std::string text = data.is_object() && data.contains(key) && data[key].is_string()
                                   ? data[key].get<std::string>()
                                   : "";
      // A half-written Secret (tls.crt without tls.key) counts as none, and the next look reads
      // both.
      *into = api::from_base64(text).value_or("");
      if (into->empty())
        return Status(Code::kNotFound,
                      "Secret " + name + " has no " + key + " yet: the leader writes it");
    }
    return pair;
  };
}

ReadCertificate certificate_in_directory(std::string directory) {
  return [directory = std::move(directory)]() -> Result<pki::KeyPair> {
    Result<std::string> certificate = read_file(directory + "/tls.crt"),
                        key = read_file(directory + "/tls.key");
    if (!certificate.ok()) return certificate.status();
    if (!key.ok()) return key.status();
    return pki::KeyPair{*std::move(certificate), *std::move(key)};
  };
}

// The thread looks at once: a replica is ready as soon as it has a certificate.
CertificateLoader::CertificateLoader(ReadCertificate read, TlsAcceptor& acceptor, unsigned look_ms)
    : read_(std::move(read)),
      acceptor_(acceptor),
      thread_([this, look_ms](const std::stop_token& stop) { loop(stop, look_ms); }) {}

CertificateLoader::~CertificateLoader() = default;

// Without a certificate every 500 ms: the leader may just be making the first one.
void CertificateLoader::loop(const std::stop_token& stop, unsigned look_ms) {
  while (!stop.stop_requested()) {
    look();
    changed_.wait(
        std::chrono::milliseconds(acceptor_.ready() ? look_ms : std::min(look_ms, kRetryMs)), stop);
  }
}

void CertificateLoader::look() {
  const Result<pki::KeyPair> pair = read_();
  // An equal pair needs no new context.
  if (pair.ok() && *pair == served_) return;
  // A read in the middle of a rotation gets files that do not match; the next look gets both.
  const Status status = pair.ok() ? acceptor_.serve(*pair) : pair.status();
  if (status.ok()) {
    const char* const text = served_.certificate.empty() ? "webhook: a certificate is served"
                                                         : "webhook: a new certificate is served";
    base::log_refusal("webhook certificate", text, base::LogLevel::kInfo, text);
    served_ = *pair;
    return;
  }
  base::log_refusal("webhook certificate", status.to_string(), base::LogLevel::kWarning,
                    "webhook certificate: " + status.to_string() +
                        (acceptor_.ready() ? "; the one before is served on" : ""));
}

}  // namespace larder::webhook
