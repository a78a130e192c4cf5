// CredentialSource::from_kubeconfig.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "operator/api/base64.h"
#include "operator/api/object.h"
#include "operator/k8s/credentials.h"
#include "operator/k8s/small_file.h"
#include "operator/k8s/yaml_object.h"

namespace larder::k8s {
namespace {

using api::Object;

Status wrong(const std::string& what) {
  return {Code::kInvalidArgument, what};
}

// White space ignored: people break long lines.
Result<std::string> decode_base64(std::string text, const std::string& field) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  std::optional<std::string> bytes = api::from_base64(text);
  if (!bytes) return wrong(field + " is no base64");
  return *std::move(bytes);
}

// The entry of a list {name, WHAT: {...}} by its name.
// A kubeconfig names cluster and user by lists of named entries, not by maps.
const Object& entry(const Object& config, const std::string& list, const std::string& what,
                    const std::string& name) {
  const Object& all = api::at(config, list);
  static const Object kNone;
  if (!all.is_array()) return kNone;
  const auto found = std::ranges::find_if(
      all, [&](const Object& one) { return api::text_at(one, "name") == name; });
  return found == all.end() ? kNone : api::at(*found, what);
}

// A program of the kubeconfig would run with the operator's rights. The fields are refused by name,
// so no such user silently becomes an anonymous one.
Status refuse_foreign_ways(const Object& user, const std::string& name) {
  constexpr std::array kRefused{"exec", "auth-provider", "username", "password",
                                "as",   "as-groups",     "as-uid"};
  for (const char* field : kRefused)
    if (user.is_object() && user.contains(field))
      return {Code::kUnsupported, "user " + name + " has '" + field +
                                      "', which is not supported: use a client certificate, a "
                                      "token or a tokenFile (for a service "
                                      "account: kubectl create token)"};
  return {};
}

// Fields of one section of the file, and the other files that it names.
struct Section {
  const Object& object;
  std::string name;
};

struct Collected {
  Credentials credentials;
  struct File {
    std::string where, file;
    std::string Credentials::*field;
  };
  std::vector<File> files = {};

  void take_file(const Section& section, const std::string& field, std::string Credentials::*to) {
    const std::string file = api::text_at(section.object, field);
    if (!file.empty()) files.push_back({section.name + "." + field, file, to});
  }
  // FIELD-data (base64, in the file itself) or FIELD (another file).
  // kubectl, too, prefers FIELD-data to FIELD.
  Status take(const Section& section, const std::string& field, std::string Credentials::*to) {
    const std::string data = api::text_at(section.object, field + "-data");
    if (data.empty()) {
      take_file(section, field, to);
      return {};
    }
    Result<std::string> text = decode_base64(data, section.name + "." + field + "-data");
    if (!text.ok()) return text.status();
    credentials.*to = std::move(*text);
    return {};
  }
};

// The files that are named are followed: they rotate.
Result<std::unique_ptr<CredentialSource>> make_source(Collected collected,
                                                      const std::filesystem::path& folder) {
  auto source = std::make_unique<CredentialSource>(std::move(collected.credentials));
  for (const Collected::File& named : collected.files)
    // A relative path counts from the folder of the kubeconfig, as in kubectl, and not from the
    // working directory.
    if (Status status = source->follow(folder / named.file, named.field); !status.ok())
      return Status(status.code(), named.where + ": " + status.text());
  return source;
}

Result<Collected> collect(const Section& cluster, const Section& user) {
  Collected collected;
  Credentials& first = collected.credentials;
  first.server = api::text_at(cluster.object, "server");
  while (first.server.ends_with('/')) first.server.pop_back();
  if (!first.server.starts_with("https://") && !first.server.starts_with("http://"))
    return wrong(cluster.name + ".server '" + first.server + "' must begin with https://");
  // tls-server-name is for tunnels and port forwards: see CurlTransport::Line::set_up().
  first.server_name = api::text_at(cluster.object, "tls-server-name");
  first.proxy = api::text_at(cluster.object, "proxy-url");
  first.verify = !api::truth_at(cluster.object, "insecure-skip-tls-verify");
  first.token = api::text_at(user.object, "token");
  if (!is_one_line(first.token))
    return wrong(user.name +
                 ".token holds a line end: write the token on one line, or with |- below the key");
  if (Status status = collected.take(cluster, "certificate-authority", &Credentials::ca_pem);
      !status.ok())
    return status;
  if (Status status = collected.take(user, "client-certificate", &Credentials::certificate_pem);
      !status.ok())
    return status;
  if (Status status = collected.take(user, "client-key", &Credentials::key_pem); !status.ok())
    return status;
  // As in kubectl, tokenFile wins over token: the file is read later and overwrites the field.
  collected.take_file(user, "tokenFile", &Credentials::token);
  return collected;
}

}  // namespace

Result<std::unique_ptr<CredentialSource>> CredentialSource::from_kubeconfig(
    const std::string& file, const std::string& context) {
  const auto fail = [&file](const Status& status) {
    return Status(status.code(), "kubeconfig " + file + ": " + status.text());
  };
  const Result<std::string> text = read_small_file(file);
  if (!text.ok()) return fail(text.status());
  const Result<Object> config = parse_yaml(*text);
  if (!config.ok()) return fail(config.status());
  const std::string chosen = context.empty() ? api::text_at(*config, "current-context") : context;
  const Object& of = entry(*config, "contexts", "context", chosen);
  if (!of.is_object())
    return fail(wrong("there is no context '" + chosen + "' (current-context, contexts)"));
  const std::string cluster_name = api::text_at(of, "cluster"),
                    user_name = api::text_at(of, "user");
  const Object& cluster = entry(*config, "clusters", "cluster", cluster_name);
  if (!cluster.is_object())
    return fail(
        wrong("context '" + chosen + "' names cluster '" + cluster_name + "', which is not there"));
  const Object& user = entry(*config, "users", "user", user_name);
  if (Status status = refuse_foreign_ways(user, user_name); !status.ok()) return fail(status);

  Result<Collected> collected =
      collect({cluster, "cluster " + cluster_name}, {user, "user " + user_name});
  if (!collected.ok()) return fail(collected.status());
  auto source = make_source(std::move(*collected), std::filesystem::absolute(file).parent_path());
  if (!source.ok()) return fail(source.status());
  return source;
}

}  // namespace larder::k8s
