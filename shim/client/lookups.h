// Lookups: the look-ups of one client in its current attachment. A look-up sends no message and has
// no side effect.
//
// A look-up counts chunks that are whole: present in every shard and group of the namespace. It
// misses while larderd is away, and while a drop of the namespace is under way.
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "shim/client/lookup.h"
#include "shim/client/namespaces.h"

namespace larder::client {

class Lookups {
 public:
  // `namespaces` outlives the object. `current`: the attachment to look up in, or nullptr.
  Lookups(const Namespaces& namespaces, std::function<std::shared_ptr<Attachment>()> current)
      : namespaces_(namespaces), current_(std::move(current)) {}

  // The number of chunks, from the first on, in memory.
  std::size_t present(const Hashes& hashes) const;
  // The last chunk in memory, counted from 1; 0: none is.
  std::size_t last(const Hashes& hashes) const;
  // The number of chunks, from the first on, in memory or below, as the residency filter shows.
  std::size_t reachable(const Hashes& hashes) const;
  // The last chunk in memory or below, counted from 1; 0: none is.
  std::size_t last_reachable(const Hashes& hashes) const;

 private:
  std::shared_ptr<Attachment> readable(std::uint32_t ns) const {
    return namespaces_.drop_pending(ns) ? nullptr : current_();
  }

  const Namespaces& namespaces_;
  const std::function<std::shared_ptr<Attachment>()> current_;
};

}  // namespace larder::client
