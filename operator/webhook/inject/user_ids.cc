#include "operator/webhook/inject/user_ids.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>

#include "operator/api/names.h"
#include "operator/desired/larderd_user.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::int64_t kLastOwnId = 65535;  // of a user namespace, as the kubelet maps ids

struct Block {
  std::int64_t first = 0, last = 0;
  bool has(std::int64_t id) const { return id >= first && id <= last; }
};

std::optional<std::int64_t> number(std::string_view text) {
  std::uint32_t value = 0;  // the type that OpenShift uses
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// START/SIZE or START-END; the first item of a list with commas.
// Examples: 1000660000/10000 (START/SIZE), 1000660000-1000669999 (START-END).
std::optional<Block> block_of(std::string_view text) {
  text = text.substr(0, text.find(','));
  const std::size_t sign = text.find_first_of("/-");
  if (sign == std::string_view::npos) return std::nullopt;
  const auto first = number(text.substr(0, sign)), second = number(text.substr(sign + 1));
  if (!first || !second) return std::nullopt;
  const Block block{*first, text[sign] == '/' ? *first + *second - 1 : *second};
  return block.last >= block.first ? std::optional(block) : std::nullopt;
}

std::optional<Block> block_in(const Surroundings& surroundings, std::string_view key) {
  if (surroundings.ns == nullptr) return std::nullopt;
  const std::optional<std::string> text = api::annotation(*surroundings.ns, key);
  return text ? block_of(*text) : std::nullopt;
}

// The user ids of the pod and its containers.
// A container without runAsUser runs as the pod's user, or as that of its image, which the webhook
// cannot see.
std::set<std::int64_t> users_of(const Object& pod) {
  std::set<std::int64_t> users;
  const auto note = [&users](const Object& security) {
    if (const Object& user = api::child(security, "runAsUser"); user.is_number_integer())
      users.insert(user.get<std::int64_t>());
  };
  note(api::at(pod, "spec.securityContext"));
  for (const char* list : {"spec.containers", "spec.initContainers"})
    for (const Object& container : api::at(pod, list))
      note(api::child(container, "securityContext"));
  return users;
}

// An engine with larderd's uid could reopen its read-only index for writing (/proc/PID/fd).
std::int64_t free_below(std::int64_t id, const std::set<std::int64_t>& taken) {
  while (taken.contains(id)) --id;
  return id;
}

std::string range_text(const Block& block) {
  return std::to_string(block.first) + " to " + std::to_string(block.last);
}

Result<UserIds> in_range(const Input& input, const Block& users,
                         const std::set<std::int64_t>& taken) {
  const Object& security = input.pool->spec.pod_security;
  const Block groups = block_in(input.surroundings, api::kGroupRangesAnnotation).value_or(users);
  const bool node = input.pool->spec.placement == api::Placement::kNode;
  const desired::LarderdUser usual = desired::larderd_user(*input.pool);
  const bool chosen = !api::child(security, "runAsUser").is_null();
  // OpenShift runs engines as the first id of the range. larderd takes ids from the end.
  const std::int64_t user = chosen ? usual.user : free_below(users.last, taken);
  if (!users.has(user) || (user == users.first && !chosen)) {
    const std::string range = ", and the namespace allows " + range_text(users) + " (annotation " +
                              std::string(api::kUserRangeAnnotation) + ")";
    if (chosen)
      return Status(Code::kUnsupported, "larderd would run as user " + std::to_string(user) +
                                            range + "; remove podSecurity.runAsUser of CachePool " +
                                            input.pool->name +
                                            ", or write a number of the range, except the first");
    return Status(Code::kUnsupported,
                  "no user id is left for larderd" + range + "; give the namespace a larger range");
  }
  const bool group_chosen = !api::child(security, "runAsGroup").is_null();
  // In placement Node the group is that of larderd's own pod on the node: it must be the same in
  // every pod of the pool.
  const std::int64_t group = node || group_chosen ? usual.group : groups.last;
  // A range without another free id: the plug-in runs as larderd.
  const std::int64_t next = chosen ? user : free_below(user - 1, taken);
  return UserIds{user, group, groups.first, user, group, next > users.first ? next : user};
}

// In a user namespace (`hostUsers: false`) a container with an id above 65535 does not start.
Status fits_own_users(const Input& input, const UserIds& ids) {
  const bool node = input.pool->spec.placement == api::Placement::kNode;
  const std::int64_t user = node ? *ids.payload : std::max(*ids.user, *ids.payload);
  const std::int64_t group = std::max(*ids.group, *ids.payload_group);
  if (user <= kLastOwnId && group <= kLastOwnId) return {};
  return {Code::kUnsupported,
          "the pod has hostUsers: false, whose ids end at " + std::to_string(kLastOwnId) +
              ", and the pool's ids are user " + std::to_string(user) + " and group " +
              std::to_string(group) +
              "; set podSecurity.runAsUser and podSecurity.runAsGroup of CachePool " +
              input.pool->name + " to smaller numbers"};
}

}  // namespace

Result<UserIds> user_ids(const Input& input) {
  const desired::LarderdUser usual = desired::larderd_user(*input.pool);
  // The platform gives ids to every container, e.g. by an SCC or a mutating policy.
  if (input.pool->spec.injection.user_ids == api::UserIdSource::kPlatform) {
    UserIds ids;  // placement Node: larderd runs in another pod with its own group
    if (input.pool->spec.placement == api::Placement::kNode) ids.group = usual.group;
    return ids;
  }
  const std::set<std::int64_t> taken = users_of(input.pod);
  const bool own_users = !api::truth_at(input.pod, "spec.hostUsers", true);
  // OpenShift's range does not bind a pod with a user namespace: restricted-v3 takes ids from 1000
  // to 65534.
  if (const std::optional<Block> users =
          own_users ? std::nullopt : block_in(input.surroundings, api::kUserRangeAnnotation)) {
    bool inside = true;
    // A user outside of the range was admitted by another rule of OpenShift (anyuid): the range
    // does not bind the pod.
    for (const std::int64_t user : taken) inside = inside && users->has(user);
    if (inside) return in_range(input, *users, taken);
  }
  const Object& security = input.pool->spec.pod_security;
  const bool chosen = !api::child(security, "runAsUser").is_null();
  const std::int64_t user = chosen ? usual.user : free_below(api::kUser, taken);
  const std::int64_t payload_group = api::number_at(security, "runAsGroup", api::kUserGroup);
  const UserIds ids{user,          usual.group,
                    usual.group,   chosen ? usual.user : api::kUser,
                    payload_group, chosen ? user : free_below(user - 1, taken)};
  if (own_users)
    if (Status status = fits_own_users(input, ids); !status.ok()) return status;
  return ids;
}

}  // namespace larder::webhook
