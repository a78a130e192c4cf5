#include "shim/client/registered_pages.h"

#include <algorithm>
#include <string>
#include <utility>

namespace larder::client {
namespace {

// Runs on the engine's thread with thousands of pages, so the loop has no branch.
Status check_pages(const Transfer& transfer, std::uint64_t page_count, bool blocks_left_out) {
  const auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(page_count, kNoPage));
  const auto beyond = [end](std::uint32_t page) {
    return page + 1 > end;
  };  // kNoPage + 1 is 0, so kNoPage passes
  bool any = false;
  for (const std::uint32_t page : transfer.pages) any |= beyond(page);
  if (any)
    return {Code::kInvalidArgument,
            "page " + std::to_string(*std::ranges::find_if(transfer.pages, beyond)) +
                " is beyond the registered pages"};
  if (!blocks_left_out && std::ranges::find(transfer.pages, kNoPage) != transfer.pages.end())
    return {Code::kInvalidArgument, "a store leaves no page out"};
  return {};
}

}  // namespace

void RegisteredPages::begin() {
  pages_.resize(spec_.groups.size());
  page_counts_.resize(spec_.groups.size(), UINT64_MAX);
  // Atomics cannot be moved, so the vector is made anew and never grows.
  registered_ = std::vector<std::atomic<bool>>(spec_.groups.size());
}

Status RegisteredPages::fits(std::uint32_t group, const GroupPages& layers) const {
  if (group >= spec_.groups.size())
    return {Code::kInvalidArgument, "no such group: " + std::to_string(group)};
  // Threads read the pages of a registered group without a lock, so a group is registered once.
  if (has(group)) return {Code::kFailedPrecondition, "the group's pages are already registered"};
  const Group& wanted = spec_.groups[group];
  if (wanted.layers == 0 || layers.size() != wanted.layers)
    return {Code::kInvalidArgument, "the namespace has " + std::to_string(wanted.layers) +
                                        " layers, got " + std::to_string(layers.size())};
  for (const LayerPages& layer : layers) {
    if (layer.base == nullptr || layer.page_bytes != wanted.piece_bytes)
      return {Code::kInvalidArgument, "a layer needs a base and pages of piece_bytes"};
    if (layer.stride_bytes < layer.page_bytes && layer.page_count > 1)
      return {Code::kInvalidArgument, "pages overlap: stride below page_bytes"};
  }
  return {};
}

void RegisteredPages::add(std::uint32_t group, GroupPages layers) {
  for (const LayerPages& layer : layers)
    // A block number counts in every layer: the smallest layer is the bound.
    page_counts_[group] = std::min(page_counts_[group], layer.page_count);
  pages_[group] = std::move(layers);
  // Last: a reader of the flag must see the pages.
  registered_[group].store(true, std::memory_order_release);
}

bool RegisteredPages::any() const {
  return std::ranges::any_of(
      registered_, [](const auto& group) { return group.load(std::memory_order_acquire); });
}

bool RegisteredPages::complete() const {
  for (std::uint32_t group = 0; group < registered_.size(); ++group)
    if (spec_.groups[group].layers != 0 && !has(group)) return false;
  return true;
}

Status RegisteredPages::check(const Transfer& transfer, bool blocks_left_out) const {
  if (!has(transfer.group)) return {Code::kFailedPrecondition, "register the group's pages first"};
  if (transfer.hashes.empty()) return {Code::kInvalidArgument, "a transfer of no chunks"};
  if (transfer.pages.size() !=
      transfer.hashes.size() * spec_.groups[transfer.group].blocks_per_chunk)
    return {Code::kInvalidArgument, "page_count must be chunks * blocks_per_chunk"};
  return check_pages(transfer, page_counts_[transfer.group], blocks_left_out);
}

}  // namespace larder::client
