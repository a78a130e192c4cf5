#include "tests/sim/sim_namespaces.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace larder::sim {
namespace {

constexpr std::uint32_t kPlacesLeft = 2;  // of a crowded larderd, for three spaces
constexpr SessionNumber kCrowd = store::kOwnSession - 1;

store::NamespaceSpec spec_of_stranger(std::uint32_t number) {
  store::NamespaceSpec spec = spec_of(0);
  spec.fingerprint =
      std::make_shared<const std::string>("simulated stranger: " + std::to_string(number) + "\n");
  spec.id = protocol::namespace_id(*spec.fingerprint);
  return spec;
}

// Calls `call` with the key of each chunk of the space.
template <typename Call>
void each_key(std::uint32_t handle, std::uint64_t space, const Call& call) {
  each_chunk(first_of(0, space), kFamilies,
             [&](std::uint64_t number) { call(number, key_under(handle, number)); });
}

}  // namespace

// Notes a handle that is given for the first time.
void SimNamespaces::note(std::uint32_t handle, std::uint64_t space) {
  if (const auto known = named_.find(handle); known != named_.end())
    return must(known->second == space, "two namespaces have one handle");
  must(!ended_.contains(handle), "a handle that was given back names a namespace again");
  const std::uint32_t place = protocol::namespace_place(handle),
                      generation = protocol::namespace_generation(handle);
  const auto newest = newest_.find(place);
  must(newest == newest_.end() || generation > newest->second,
       "a place is used again under no higher generation");
  reused += newest != newest_.end();
  newest_[place] = generation;
  named_[handle] = space;
}

// Like larderd's journal: written before the namespace can have a chunk; now and then rewritten
// without namespaces that were given back.
void SimNamespaces::enter(std::uint32_t handle, std::uint64_t space) {
  note(handle, space);
  if (machine_.one_in(4))
    std::erase_if(index_.journal, [this](const store::EarlierName& one) {
      return !store_.namespaces().is_open(*one.handle);
    });
  const auto same = [handle](const store::EarlierName& one) { return one.handle == handle; };
  if (std::ranges::none_of(index_.journal, same))
    index_.journal.push_back({spec_of(space), handle});
}

void SimNamespaces::restored(std::span<const store::EarlierName> names,
                             const store::Store::Restored& restored) {
  for (const auto& [i, handle] : restored.names) enter(handle, space_of(names[i].spec.id));
}

void SimNamespaces::crowd() {
  std::string difference;
  for (std::uint32_t i = 0; i < protocol::kMaxNamespaces - kPlacesLeft; ++i) {
    const std::uint32_t handle = *store_.open_namespace(spec_of_stranger(i), &difference);
    note(handle, kSpaces);
    store_.join_namespace(handle);
    opened_[kCrowd].insert(handle);
  }
}

void SimNamespaces::crowd_leaves() {
  leave(kCrowd);
}

std::uint32_t SimNamespaces::open(SessionNumber session, std::uint64_t space) {
  std::string difference;
  Result<std::uint32_t> handle = store_.open_namespace(spec_of(space), &difference);
  if (!handle.ok()) {
    must(handle.status().code() == Code::kResourceExhausted,
         "a namespace is refused: " + handle.status().text());
    const std::optional<std::uint32_t> least = store_.namespaces().least_used();
    if (!least) return protocol::kNoNamespace;
    must(store_.namespaces().at(*least).sessions == 0,
         "a namespace that a session has open is evicted for its place");
    ++evicted;
    drop_from_memory(*least);
    handle = store_.open_namespace(spec_of(space), &difference);
    must(handle.ok(),
         "the place of a namespace that was evicted is not free: " + handle.status().text());
  }
  enter(*handle, space);
  if (opened_[session].insert(*handle).second) store_.join_namespace(*handle);
  return *handle;
}

void SimNamespaces::close(SessionNumber session, std::uint32_t handle, bool drop) {
  if (opened_[session].erase(handle) == 0) return;
  const std::uint64_t space = named_.at(handle);
  const bool last = store_.namespaces().at(handle).sessions == 1;
  const std::set<std::uint64_t> before = visible(handle, space);
  store_.leave_namespace(handle);
  if (drop && last) return drop_from_memory(handle);
  must(visible(handle, space) == before,
       "a chunk is gone with a session that closed its namespace");
}

// larderd's work on a namespace that no session has open, chunk by chunk.
void SimNamespaces::drop_from_memory(std::uint32_t handle) {
  removed_(named_.at(handle));
  for (store::Drop drop{handle, true}; !drop.done;) store_.drop(drop);
  must(!store_.namespaces().is_open(handle), "a namespace without chunks is kept");
}

void SimNamespaces::leave(SessionNumber session) {
  for (const std::uint32_t handle : std::exchange(opened_[session], {}))
    store_.leave_namespace(handle);
  opened_.erase(session);
}

bool SimNamespaces::has_open(SessionNumber session, std::uint32_t handle) const {
  const auto opened = opened_.find(session);
  return opened != opened_.end() && opened->second.contains(handle);
}

std::optional<std::uint32_t> SimNamespaces::handle_of(std::uint64_t space) const {
  for (const auto& [handle, named] : named_)
    if (named == space && store_.namespaces().is_open(handle)) return handle;
  return std::nullopt;
}

std::set<std::uint64_t> SimNamespaces::visible(std::uint32_t handle, std::uint64_t space) const {
  std::set<std::uint64_t> all;
  if (space == kSpaces) return all;
  each_key(handle, space, [&](std::uint64_t number, const protocol::Key& key) {
    if (index_.reader.find(key)) all.insert(number);
  });
  return all;
}

void SimNamespaces::check() {
  for (auto next = named_.begin(); next != named_.end();) {
    const auto [handle, space] = *next++;
    if (store_.namespaces().is_open(handle)) {
      check_named(handle, space);
      continue;
    }
    must(visible(handle, space).empty(), "a chunk is found under a handle that was given back");
    ended_[handle] = space;
    named_.erase(handle);
    ++given_back;
  }
  for (const auto& [session, handles] : opened_)
    for (const std::uint32_t handle : handles)
      must(named_.contains(handle), "a namespace is gone under a session");
  if (ended_.empty()) return;
  const auto old =
      std::next(ended_.begin(), static_cast<std::ptrdiff_t>(machine_.below(ended_.size())));
  must(!store_.namespaces().is_open(old->first), "a handle that was given back is open");
  must(visible(old->first, old->second).empty(),
       "a chunk is found under a handle that was given back long ago");
}

void SimNamespaces::check_named(std::uint32_t handle, std::uint64_t space) {
  const store::Namespace& one = store_.namespaces().at(handle);
  if (space < kSpaces)
    must(one.spec.id == spec_of(space).id, "a handle names another namespace than before");
  must(!one.left || one.slots != 0, "a namespace is kept without session and chunk");
  if (space == kSpaces) return;
  std::uint32_t sessions = 0;
  for (const auto& [session, handles] : opened_) sessions += handles.contains(handle) ? 1 : 0;
  must(one.sessions == sessions, "a namespace counts sessions that do not have it open");
}

}  // namespace larder::sim
