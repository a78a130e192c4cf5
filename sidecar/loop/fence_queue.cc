#include "sidecar/loop/fence_queue.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <string>

namespace larder::loop {

Status FenceQueue::hold(std::uint32_t session, std::vector<std::byte> packet,
                        std::vector<tiering::PendingDrop> drops, std::uint64_t now_ms) {
  // The caller ends the session: an engine that never waits for its drops would otherwise grow this
  // queue without bound.
  if (std::ranges::count(fences_, session,
                         [](const Fence& fence) { return fence.answer.session; }) >= kMaxFences)
    return {Code::kResourceExhausted,
            std::to_string(kMaxFences) + " answers wait for drops to be noted below memory"};
  fences_.push_back({{session, std::move(packet)}, std::move(drops), now_ms + kSharedFenceMs});
  return {};
}

std::vector<FenceQueue::Answer> FenceQueue::take_done(std::uint64_t now_ms) {
  std::vector<Answer> done;
  // Each fence is looked at once: unfinished ones go back to the end in their old order.
  const std::size_t waiting = fences_.size();
  for (std::size_t i = 0; i < waiting; ++i) {
    Fence fence = std::move(fences_.front());
    fences_.pop_front();
    if (!is_live_(fence.answer.session)) continue;
    const bool late = now_ms >= fence.shared_by_ms;  // mutation: shared-drop-bound
    std::erase_if(fence.drops, [late](const tiering::PendingDrop& drop) {
      // Only shared tiers time out. A drop on this machine's disk must be noted before the reply,
      // or a restart could undo the drop.
      return (drop.shared && late) ||
             drop.ended.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    if (fence.drops.empty())
      done.push_back(std::move(fence.answer));
    else
      fences_.push_back(std::move(fence));
  }
  return done;
}

}  // namespace larder::loop
