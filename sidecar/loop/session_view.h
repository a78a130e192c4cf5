// show_session(): adds an attached session to a snapshot. Called by the thread of the loop.
#pragma once

#include "sidecar/session/connection.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/store.h"
#include "sidecar/transfer/transfers.h"

namespace larder::loop {

// A session that is not attached is left out. `transfers`: null if engines copy by themselves; one
// fallback covers all sessions for which larderd should copy and does not.
void show_session(stats::Stats& view, const session::Connection& connection,
                  const store::Store& store, const transfer::Transfers* transfers);

}  // namespace larder::loop
