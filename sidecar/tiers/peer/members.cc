#include "sidecar/tiers/peer/members.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <utility>

#include "shim/protocol/key.h"
#include "sidecar/base/time_units.h"

namespace larder::peer {
namespace {

using base::kNsPerMs;

// The numeric host and the port of an address.
net::Endpoint endpoint_of(const net::Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address.storage);
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(four.sin_port)};
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address.storage);
  ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
  return {text.data(), ntohs(six.sin6_port)};
}

// Another order in each larderd, so that no member is asked by all.
std::uint64_t rank(const Instance& self, const net::Endpoint& endpoint) {
  // `self.id` is random in each run. The ranks of one address therefore differ between larderd.
  const std::string text = self.id + " " + net::text_of(endpoint);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

Members::Members(const ClientOptions& options, const base::Clock& clock, net::Poller& poller)
    : options_(options), clock_(clock), poller_(poller) {
  // A list of members is complete and fixed. A name is asked again, since pods come and go.
  if (options.by_dns)
    resolver_ = std::make_unique<net::Resolver>(options.members.front(), poller.wake_fd());
  else
    set(options.members);
}

void Members::turn() {
  resolve(clock_.now_ns());
  for (const auto& member : members_) {
    member->questions.turn();
    member->payloads.turn();
    find_self(*member, clock_.now_ns());
  }
}

// An address of this larderd may become the address of another: one connection asks now and then.
void Members::find_self(Member& member, std::uint64_t now_ns) const {
  if (member.self && member.questions->retired()) {
    if (now_ns >= member.self_ns + options_.self_ms * kNsPerMs) member.questions->resume();
    return;
  }
  if (!member.questions->ready()) return;
  // INSTANCE decides, not the address: a pod behind a Service or NAT does not know its own address.
  const bool self = member.questions->other()->id == options_.self.id;  // mutation: peer-not-self
  if (self) {
    member.questions.retire();
    member.payloads.retire();
    member.self_ns = now_ns;
  } else if (member.self) {
    member.payloads->resume();
  }
  member.self = self;
}

void Members::flush() {
  for (const auto& member : members_) {
    member->questions.flush();
    member->payloads.flush();
  }
}

void Members::resolve(std::uint64_t now_ns) {
  if (resolver_ == nullptr || now_ns < resolve_ns_) return;
  std::optional<Result<std::vector<net::Address>>> found = resolver_->poll();
  resolving_ = !found.has_value();
  if (resolving_) return;  // the end of the resolution wakes the thread
  resolve_ns_ = now_ns + options_.resolve_ms * kNsPerMs;
  resolved_ = found->status();
  // Connections to members outlive a failure of DNS, so reads go on.
  if (!found->ok()) return;  // the members stay: DNS may be away for a while
  std::vector<net::Endpoint> endpoints;
  for (const net::Address& address : **found) endpoints.push_back(endpoint_of(address));
  set(std::move(endpoints));
}

// Keeps the connections of members that stay. One more than `fanout`, because one may be this
// larderd.
void Members::set(std::vector<net::Endpoint> endpoints) {
  // The order must be the same after each answer of DNS, which shuffles its addresses. A changed
  // order would end connections at each question.
  std::ranges::sort(endpoints, {}, [this](const net::Endpoint& one) {
    return std::pair(rank(options_.self, one), net::text_of(one));
  });
  endpoints.erase(std::unique(endpoints.begin(), endpoints.end()), endpoints.end());
  if (endpoints.size() > options_.fanout + 1) endpoints.resize(options_.fanout + 1);
  std::vector<std::unique_ptr<Member>> before = std::exchange(members_, {});
  for (net::Endpoint& endpoint : endpoints) {
    const auto known = std::ranges::find_if(
        before, [&](const auto& one) { return one != nullptr && one->endpoint == endpoint; });
    // A known member moves with its connections, its counters and its number. A new member gets a
    // number that was never used, so that no offer of a past member finds it.
    members_.push_back(known != before.end()
                           ? std::move(*known)
                           : std::make_unique<Member>(options_, clock_, poller_, ++last_number_,
                                                      std::move(endpoint)));
  }
  for (const std::unique_ptr<Member>& gone : before) {
    if (gone == nullptr) continue;
    for (MemberLink* link : {&gone->questions, &gone->payloads}) {
      link->retire();  // answers the open requests
      past_sent_ += link->sent_bytes();
      past_received_ += link->received_bytes();
    }
  }
}

// A resolution that runs has no time here: its end wakes the poller.
std::uint64_t Members::next_ns() const {
  std::uint64_t next = resolver_ == nullptr || resolving_ ? UINT64_MAX : resolve_ns_;
  for (const auto& member : members_) {
    next = std::min({next, member->questions.next_ns(), member->payloads.next_ns()});
    if (member->questions->retired())
      next = std::min(next, member->self_ns + options_.self_ms * kNsPerMs);
  }
  return next;
}

std::vector<Member*> Members::askable() {
  std::vector<Member*> members;
  for (const auto& member : members_)
    // A member with a late answer is asked again only after the answer. A stopped member thus
    // delays one probe, not every probe.
    if (members.size() < options_.fanout && member->ready() &&
        member->questions->answers_within(options_.probe_ms))
      members.push_back(member.get());
  return members;
}

Member* Members::find(std::uint64_t number) {
  const auto found =
      std::ranges::find_if(members_, [number](const auto& one) { return one->number == number; });
  return found == members_.end() ? nullptr : found->get();
}

void Members::cancel(std::uint64_t owner) {
  for (const auto& member : members_) {
    member->questions.cancel(owner);
    member->payloads.cancel(owner);
  }
}

Members::View Members::view() const {
  View view;
  for (const auto& member : members_) {
    if (member->self) continue;
    ++view.known;
    if (member->ready()) {
      ++view.reachable;
      continue;
    }
    // The status shows one failure, that of the first member in the order of ranks.
    const Status& why = member->questions->failure().ok() ? member->payloads->failure()
                                                          : member->questions->failure();
    if (view.failure.empty() && !why.ok())
      view.failure = net::text_of(member->endpoint) + ": " + why.text();
  }
  // Without members a failure of DNS is the only reason. With members the connections tell more.
  if (members_.empty() && !resolved_.ok()) view.failure = resolved_.text();
  return view;
}

std::uint64_t Members::sent_bytes() const {
  std::uint64_t bytes = past_sent_;
  for (const auto& member : members_)
    bytes += member->questions.sent_bytes() + member->payloads.sent_bytes();
  return bytes;
}

std::uint64_t Members::received_bytes() const {
  std::uint64_t bytes = past_received_;
  for (const auto& member : members_)
    bytes += member->questions.received_bytes() + member->payloads.received_bytes();
  return bytes;
}

}  // namespace larder::peer
