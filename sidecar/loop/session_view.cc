#include "sidecar/loop/session_view.h"

#include <algorithm>
#include <string>
#include <vector>

#include "shim/protocol/copy_strategy.h"
#include "shim/protocol/transfer_messages.h"
#include "sidecar/session/session_name.h"

namespace larder::loop {
namespace {

// Copies the engine's own statements into the status. larderd bases no decision on them.
void show_gpu(stats::Stats& view, const protocol::SessionRegion& region) {
  stats::SessionStats& session = view.sessions.back();
  session.copies_by =
      protocol::CopyStrategy::unpacked(region.copy_strategy.load(std::memory_order_relaxed))
          .in_words();
  // The engine writes this word and may write anything: bounded by the arena.
  session.registered_bytes =
      std::min(region.registered_bytes.load(std::memory_order_relaxed), view.arena_bytes);
}

// Adds which process copies for the session.
void show_way(stats::Stats& view, const transfer::Way& way, const std::string& name) {
  stats::SessionStats& session = view.sessions.back();
  session.sidecar_copies = way.sidecar;
  if (!way.refusal.refused()) return;
  session.transfer_reason = protocol::transfer_reason_name(way.refusal.reason);
  session.transfer_why = way.refusal.text;
  if (way.refusal.reason == protocol::TransferReason::kHostMemory) return;  // no remedy exists
  // One fallback for all sessions: engines of one image all have the same reason.
  if (std::ranges::find(view.fallbacks, "transfer", &stats::Fallback::kind) == view.fallbacks.end())
    view.fallbacks.push_back({"transfer", name + " copies by itself (" + session.transfer_reason +
                                              "): " + session.transfer_why});
}

}  // namespace

void show_session(stats::Stats& view, const session::Connection& connection,
                  const store::Store& store, const transfer::Transfers* transfers) {
  // Before ATTACHED the store does not know the session, and the engine has no name yet.
  if (connection.protocol.state() != session::SessionProtocol::State::kAttached) return;
  const std::uint32_t number = connection.protocol.facts().number;
  const std::vector<std::uint32_t>& handles = connection.protocol.namespaces();
  const store::SessionUse use = store.sessions().use_of(number);
  view.sessions.push_back(
      {number, connection.protocol.engine(),
       handles.empty() ? "" : store.namespaces().at(handles.back()).spec.id.to_hex(),
       connection.silent, use.holds, use.grants, use.held_bytes, use.granted_bytes, false, "", ""});
  show_gpu(view, connection.memory.region());
  if (transfers != nullptr)
    show_way(view, transfers->way(number), session::session_name(connection));
}

}  // namespace larder::loop
