#include "operator/desired/larderd_user.h"

#include <string>

#include "operator/api/names.h"
#include "operator/desired/short_hash.h"

namespace larder::desired {
namespace {

// Above the ids of systems, images and OpenShift (from 1,000,000,000, 10,000 per namespace).
// Kubernetes takes ids below 2^31.
constexpr std::uint64_t kFirst = 2'000'000'000, kMost = (std::uint64_t{1} << 31) - 1;
constexpr int kHexadecimal = 16;

// A hash instead of a counter: the number must be the same after a restart of the operator, without
// a stored state.
std::int64_t own_number(const api::CachePool& pool) {
  // Two pools may get the same number by chance. Their folders differ, and the kernel keeps pods of
  // different pools apart by the mounts.
  const std::uint64_t hash =
      std::stoull(short_hash(pool.ns + "/" + pool.name), nullptr, kHexadecimal);
  return static_cast<std::int64_t>(kFirst + hash % (kMost - kFirst + 1));
}

}  // namespace

LarderdUser larderd_user(const api::CachePool& pool) {
  const bool node = pool.spec.placement == api::Placement::kNode;
  // In placement Node several pools share a node: each larderd has its own user, so no larderd can
  // open another pool's memory.
  const std::int64_t number = node ? own_number(pool) : 0;
  return {api::number_at(pool.spec.pod_security, "runAsUser", node ? number : api::kUser),
          api::number_at(pool.spec.pod_security, "runAsGroup", node ? number : api::kUserGroup)};
}

LarderdUser plugin_user(const api::CachePool& pool) {
  const LarderdUser larderd = larderd_user(pool);
  const bool chosen = !api::child(pool.spec.pod_security, "runAsUser").is_null();
  return {chosen ? larderd.user : larderd.user - 1, larderd.group};
}

}  // namespace larder::desired
