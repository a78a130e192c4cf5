#include "sidecar/tiers/peer/member_link.h"

#include <algorithm>
#include <utility>

namespace larder::peer {
namespace {

constexpr std::uint64_t kNsPerS = 1'000'000'000;
constexpr std::int64_t kMostValidS = 1'000'000'000;  // bounds the sum of times

}  // namespace

MemberLink::MemberLink(const ClientOptions& options, const base::Clock& clock, net::Poller& poller,
                       net::Endpoint endpoint)
    : options_(options),
      clock_(clock),
      poller_(poller),
      endpoint_(std::move(endpoint)),
      random_(clock.now_ns() ^ reinterpret_cast<std::uintptr_t>(this)),
      current_(make()) {}

MemberLink::Link MemberLink::make() const {
  return std::make_unique<PeerLink>(options_, clock_, poller_, endpoint_);
}

template <typename Work>
void MemberLink::each(Work work) const {
  for (const Link* link : {&current_, &next_, &former_})
    if (*link != nullptr) work(**link);
}

void MemberLink::turn() {
  current_->turn();
  if (next_ != nullptr) next_->turn();
  if (former_ != nullptr) {
    former_->turn();
    if (former_->idle() || !former_->ready()) end(former_);
  }
  renew(clock_.now_ns());
}

void MemberLink::renew(std::uint64_t now_ns) {
  // A lost connection is made anew by itself, with the files of that time.
  if (!current_->ready()) {
    end(next_);
    renew_ns_ = UINT64_MAX;
    return;
  }
  if (renew_ns_ == UINT64_MAX) renew_ns_ = half_of_validity(now_ns);
  // One former connection at most: a server bounds the connections of a peer.
  if (next_ == nullptr && former_ == nullptr && renew_ns_ <= now_ns)  // mutation: peer-renew
    next_ = make();
  if (next_ == nullptr) return;
  if (next_->ready()) {
    former_ = std::exchange(current_, std::move(next_));
    renew_ns_ = half_of_validity(now_ns);
  } else if (!next_->failure().ok()) {
    // The files or the member are in a bad moment. The connection at hand goes on.
    end(next_);
    renew_ns_ = half_of_validity(now_ns);
  }
}

// At half of the rest or a little before, again and again: a rotation at any time before the end is
// seen in time, and files without a rotation cost few connections. The random part spreads the
// renewals of a pool, because all members share one certificate.
std::uint64_t MemberLink::half_of_validity(std::uint64_t now_ns) {
  const std::int64_t valid_s = current_->valid_s();
  if (valid_s == INT64_MAX) return UINT64_MAX;
  const auto rest_ns = static_cast<std::uint64_t>(std::min(valid_s, kMostValidS)) * kNsPerS;
  const std::uint64_t half_ns = rest_ns / 2;
  return now_ns + std::max(half_ns - random_() % (half_ns / 4 + 1), kNsPerS);
}

void MemberLink::end(Link& link) {
  if (link == nullptr) return;
  link->retire();
  past_sent_ += link->sent_bytes();
  past_received_ += link->received_bytes();
  link.reset();
}

void MemberLink::flush() {
  each([](PeerLink& link) { link.flush(); });
}

std::uint64_t MemberLink::next_ns() const {
  const bool renews = next_ == nullptr && former_ == nullptr;
  std::uint64_t next = renews ? renew_ns_ : UINT64_MAX;
  each([&](const PeerLink& link) { next = std::min(next, link.next_ns()); });
  return next;
}

void MemberLink::cancel(std::uint64_t owner) {
  each([&](PeerLink& link) { link.cancel(owner); });
}

void MemberLink::retire() {
  end(next_);
  end(former_);
  current_->retire();
  renew_ns_ = UINT64_MAX;
}

std::uint64_t MemberLink::sent_bytes() const {
  std::uint64_t bytes = past_sent_;
  each([&](const PeerLink& link) { bytes += link.sent_bytes(); });
  return bytes;
}

std::uint64_t MemberLink::received_bytes() const {
  std::uint64_t bytes = past_received_;
  each([&](const PeerLink& link) { bytes += link.received_bytes(); });
  return bytes;
}

}  // namespace larder::peer
