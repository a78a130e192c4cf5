#include "operator/webhook/inject/limit_range.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "operator/api/names.h"
#include "operator/webhook/inject/pod_form.h"
#include "operator/webhook/inject/resource_sums.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::uint64_t kWholeCpu = 1000;  // with less, the kernel pauses larderd during a copy

// Calls `visit` with each limit of a type and the LimitRange's name.
// Several LimitRanges of a namespace all apply.
void each_limit(const Surroundings& surroundings, std::string_view type,
                const std::function<void(const Object& limit, const std::string& name)>& visit) {
  for (const Surroundings::Kept& range : surroundings.limit_ranges)
    for (const Object& limit : api::at(*range, "spec.limits"))
      if (api::text_at(limit, "type") == type) visit(limit, api::name_of(*range));
}

// A quantity that cannot be read has no effect: the API server would not have stored it.
void each_amount(
    const Object& limit, const char* rule,
    const std::function<void(const std::string& resource, std::uint64_t amount)>& visit) {
  const Object& amounts = api::child(limit, rule);
  if (!amounts.is_object()) return;
  for (const auto& [resource, quantity] : amounts.items())
    if (const Amount amount = amount_of(quantity)) visit(resource, *amount);
}

// One added container, and one method for each rule of LimitRanger.
class Fitting {
 public:
  Fitting(Object& container, const Object& wanted)
      : container_(container),
        wanted_(wanted),
        requests_(map_in(map_in(container, "resources"), "requests")),
        limits_(map_in(container["resources"], "limits")) {}

  // LimitRanger gives this limit to a container without one, even below the request, and even for
  // GPUs, which the added containers do not use.
  void give_default(const std::string& resource, std::uint64_t amount) {
    if (limits_.contains(resource)) return;
    if (!is_needed(resource)) amount = 0;
    if (resource == kCpu) amount = std::max(amount, kWholeCpu);
    set(limits_, resource, std::max(amount, request(resource).value_or(0)));
  }
  void give_default_request(const std::string& resource, std::uint64_t amount) {
    if (requests_.contains(resource)) return;
    set(requests_, resource,
        is_needed(resource) ? std::min(amount, limit(resource).value_or(amount)) : 0);
  }
  void raise(const std::string& resource, std::uint64_t least) {
    if (!is_needed(resource)) return;
    if (request(resource).value_or(0) < least) set(requests_, resource, least);
    if (const Amount limit = this->limit(resource); limit && *limit < request(resource).value_or(0))
      set(limits_, resource, *request(resource));
  }
  // Memory is never lowered: larderd touches its whole arena, and a smaller limit would kill it.
  // refused_by_limit_range() then tells the user.
  // A maximum of GPUs demands a limit of every container: the added containers take none.
  void lower(const std::string& resource, std::uint64_t most) {
    if (!is_needed(resource)) {
      if (!limits_.contains(resource)) set(limits_, resource, 0);
      return;
    }
    if (!limits_.contains(resource)) {
      const std::uint64_t enough =
          resource == kCpu ? std::max(kWholeCpu, request(resource).value_or(0)) : most;
      set(limits_, resource, enough);
    }
    if (resource != kCpu || limit(resource).value_or(0) <= most || is_wanted("limits")) return;
    set(limits_, resource, most);
    if (request(resource).value_or(0) > most && !is_wanted("requests"))
      set(requests_, resource, most);
  }
  // limit / request must be at most the ratio: the request is raised, and the limit stays.
  void narrow(const std::string& resource, std::uint64_t ratio_milli) {
    if (ratio_milli == 0 || !request(resource) || !is_needed(resource)) return;
    if (!limits_.contains(resource)) set(limits_, resource, *request(resource));
    const auto least = std::ceil(static_cast<double>(limit(resource).value_or(0)) * 1000.0 /
                                 static_cast<double>(ratio_milli));
    raise(resource, static_cast<std::uint64_t>(least));
  }

 private:
  // Huge pages follow the pool, and the added containers use no extended resource.
  static bool is_needed(const std::string& resource) {
    return resource == kCpu || resource == "memory" || resource == "ephemeral-storage";
  }
  Amount request(const std::string& resource) const {
    return container_amount(container_, "requests", resource);
  }
  Amount limit(const std::string& resource) const {
    return container_amount(container_, "limits", resource);
  }
  bool is_wanted(const char* section) const {
    return !api::child(api::child(wanted_, section), kCpu).is_null();
  }
  static void set(Object& section, const std::string& resource, std::uint64_t amount) {
    section[resource] = amount_text(resource, amount);
  }

  const Object& container_;
  const Object& wanted_;
  Object& requests_;
  Object& limits_;
};

std::string at_most(const std::string& name, const std::string& resource, const std::string& what,
                    std::uint64_t most, std::uint64_t has) {
  return "LimitRange " + name + " allows " + what + " at most " + amount_text(resource, most) +
         " of " + resource + ", and with the cache the amount is " + amount_text(resource, has);
}

// 1500 -> "1.5"
std::string ratio_text(std::uint64_t milli) {
  std::string text = std::to_string(milli / 1000);
  if (milli % 1000 == 0) return text;
  text += "." + std::to_string(1000 + milli % 1000).substr(1);
  return text.substr(0, text.find_last_not_of('0') + 1);
}

// Checks one container or the whole pod; `amount` returns requests or limits of a resource.
// For "max", LimitRanger demands a limit as well: a container without one counts as unlimited.
using AmountOf = std::function<Amount(std::string_view section, const std::string& resource)>;

std::string refused(const Object& limit, const std::string& name, const std::string& what,
                    const AmountOf& amount) {
  std::string why;
  const auto say = [&why](std::string text) {
    if (why.empty()) why = std::move(text);
  };
  each_amount(limit, "max", [&](const std::string& resource, std::uint64_t most) {
    const Amount limited = amount("limits", resource), asked = amount("requests", resource);
    if (!limited)
      return say("LimitRange " + name + " requires a limit of " + resource + " for " + what);
    const std::uint64_t has = std::max(*limited, asked.value_or(0));
    if (has > most) say(at_most(name, resource, what, most, has));
  });
  each_amount(limit, "min", [&](const std::string& resource, std::uint64_t least) {
    const Amount asked = amount("requests", resource);
    if (asked.value_or(0) < least)
      say("LimitRange " + name + " requires " + what + " to request at least " +
          amount_text(resource, least) + " of " + resource + ", and the request is " +
          amount_text(resource, asked.value_or(0)));
  });
  each_amount(
      limit, "maxLimitRequestRatio", [&](const std::string& resource, std::uint64_t ratio_milli) {
        const std::uint64_t limited = amount("limits", resource).value_or(0),
                            asked = amount("requests", resource).value_or(0);
        // LimitRanger refuses an amount of 0 like a missing one.
        if (limited == 0 || asked == 0)
          return say("LimitRange " + name + " has a maxLimitRequestRatio of " + resource +
                     ", which requires " + what + " to have a request and a limit");
        const double most = static_cast<double>(ratio_milli) / 1000;
        if (static_cast<double>(limited) <= most * static_cast<double>(asked)) return;
        say("LimitRange " + name + " allows " + what + " a limit of " + resource + " of at most " +
            ratio_text(ratio_milli) + " times the request, and with the cache the limit is higher");
      });
  return why;
}

// Only Larder's containers: the API server judges the others without Larder as well.
std::string refused_container(const Object& pod, const Object& limit, const std::string& name) {
  for (const char* list : {"spec.initContainers", "spec.containers"})
    for (const Object& container : api::at(pod, list)) {
      if (!api::is_injected(api::text_at(container, "name"))) continue;
      const AmountOf amount = [&container](std::string_view section, const std::string& resource) {
        return container_amount(container, section, resource);
      };
      if (std::string why =
              refused(limit, name, "the container " + api::text_at(container, "name"), amount);
          !why.empty())
        return why;
    }
  return "";
}

std::string refused_pod(const Object& pod, const Object& limit, const std::string& name) {
  return refused(limit, name, "a pod",
                 [&pod](std::string_view section, const std::string& resource) {
                   return pod_amount(pod, section, resource);
                 });
}

// The pod of a refused claim waits for ever.
// The pod itself would be admitted, and its claim refused later.
std::string refused_claim(const Object& pod, const Object& limit, const std::string& name) {
  for (const Object& volume : api::at(pod, "spec.volumes")) {
    if (api::text_at(volume, "name") != api::kDiskVolume) continue;
    const Amount size =
        amount_of(api::at(volume, "ephemeral.volumeClaimTemplate.spec.resources.requests.storage"));
    if (!size) continue;
    const Amount most = amount_of(api::at(limit, "max.storage")),
                 least = amount_of(api::at(limit, "min.storage"));
    if (most && *size > *most) return at_most(name, "storage", "a claim", *most, *size);
    if (least && *size < *least)
      return "LimitRange " + name + " requires a claim of at least " +
             amount_text("storage", *least) + " of storage";
  }
  return "";
}

}  // namespace

// The order is that of the admission plugin: defaults first, then the rules that check them.
void fit_limit_ranges(Object& container, const Object& wanted, const Surroundings& surroundings) {
  if (surroundings.limit_ranges.empty()) return;
  Fitting fitting(container, wanted);
  const auto apply = [&](const char* rule,
                         void (Fitting::*step)(const std::string&, std::uint64_t)) {
    each_limit(surroundings, "Container", [&](const Object& limit, const std::string&) {
      each_amount(limit, rule, [&](const std::string& resource, std::uint64_t amount) {
        (fitting.*step)(resource, amount);
      });
    });
  };
  apply("default", &Fitting::give_default);
  apply("defaultRequest", &Fitting::give_default_request);
  apply("max", &Fitting::lower);
  apply("min", &Fitting::raise);
  apply("maxLimitRequestRatio", &Fitting::narrow);
}

// `before` is checked as well: a pod that the namespace refuses without the cache is not Larder's
// affair.
std::string refused_by_limit_range(const Object& before, const Object& after,
                                   const Surroundings& surroundings) {
  std::string why;
  const auto look = [&](std::string_view type, const auto& refusal) {
    each_limit(surroundings, type, [&](const Object& limit, const std::string& name) {
      if (why.empty() && refusal(before, limit, name).empty()) why = refusal(after, limit, name);
    });
  };
  look("Container", refused_container);
  look("Pod", refused_pod);
  look("PersistentVolumeClaim", refused_claim);
  return why;
}

}  // namespace larder::webhook
