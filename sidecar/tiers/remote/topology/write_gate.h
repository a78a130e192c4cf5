// WriteGate: the chunks that one server refuses, by size, and the time of the next trial. Each
// server has one gate. Pure; thread-compatible.
//
// A refusal closes the gate for chunks of that size and larger; smaller chunks pass. After a pause
// one chunk passes as a trial. A stored trial opens the gate, a refused trial doubles the pause.
// Room for a small chunk is no room for a large one: the largest refused size keeps a pause of its
// own, until a chunk of that size is stored. A pause lasts at least as long as the bytes of one
// trial take at `trial_bytes_per_s`, so that a server that refuses large chunks costs little
// traffic. An unknown error is retried once soon, because it may be over. Connections that end
// during a chunk count as a refusal from the third in a row on: a single one says nothing about the
// chunk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

namespace larder::remote {

class WriteGate {
 public:
  struct Pauses {
    std::uint64_t least_ms = 1000;
    std::uint64_t most_ms = 300'000;
    std::uint64_t trial_bytes_per_s = 8 << 10;
  };
  // A put to this server. `sent_bytes`: of one trial.
  struct Put {
    std::uint64_t bytes = 0;       // of the chunk's slot
    std::uint64_t sent_bytes = 0;  // by a trial of the chunk
    std::uint64_t begun_ns = 0;
  };
  WriteGate(const Pauses& pauses, std::uint64_t seed)
      : pauses_(pauses), random_(static_cast<std::minstd_rand::result_type>(seed | 1)) {}

  bool lets(std::uint64_t bytes, std::uint64_t now_ns) const {
    if (bytes >= largest_refused_ && (now_ns < largest_next_ns_ || now_ns < trial_until_ns_))
      return false;
    return !closed() || bytes < closed_from_ || (now_ns >= next_ns_ && now_ns >= trial_until_ns_);
  }
  // A chunk that passes is sent now. True: the chunk is the trial; end_trial(), stored(), refused()
  // or lost() follows. `of`: the number of the put.
  bool begin(std::uint64_t bytes, std::uint64_t now_ns, std::uint64_t of = 0);
  void end_trial(std::uint64_t of = 0) {
    if (trial_of_ == of) trial_until_ns_ = 0;
  }
  void stored(const Put& put);
  enum class Why : std::uint8_t { kFull, kKnown, kUnknown };
  void refused(const Put& put, const std::string& reason, Why why, std::uint64_t now_ns);
  // The connection ended, or a deadline passed, during the transfer of the chunk.
  void lost(const Put& put, const std::string& reason, std::uint64_t now_ns);

  // The free bytes of a server that was full. Much more room than at the refusal allows a trial
  // before its time. With little room, chunks go one after the other, as trials, as long as the
  // known room lasts.
  void has_room(std::uint64_t free_bytes, std::uint64_t now_ns);
  // Whether a question for has_room() is useful.
  bool full() const { return closed() && full_; }

  // Opens the gate if a pause ended long ago without a chunk to try.
  void tick(std::uint64_t now_ns);
  bool closed() const { return closed_from_ != UINT64_MAX; }
  std::uint64_t closed_from() const {
    return std::min(closed_from_, largest_refused_);
  }  // bytes; UINT64_MAX: open
  const std::string& reason() const { return closed() ? reason_ : largest_reason_; }  // empty: open
  // The time of the next offer of a chunk that does not pass now. Offers are frequent, because they
  // cost no traffic.
  std::uint64_t again_ns(std::uint64_t now_ns) const;

 private:
  void open();
  void forget_largest();
  static bool fits(std::uint64_t bytes, std::uint64_t free_bytes);

  Pauses pauses_;
  std::minstd_rand random_;
  std::uint64_t closed_from_ = UINT64_MAX;
  std::uint64_t closed_ns_ = 0;  // the time of the last refusal
  std::uint64_t wait_ns_ = 0, next_ns_ = 0, trial_until_ns_ = 0;
  std::string reason_;
  std::uint64_t largest_refused_ = UINT64_MAX, largest_next_ns_ = 0;
  std::string largest_reason_;
  bool full_ = false;
  std::uint64_t trial_of_ = 0;  // the put of the trial, until trial_until_ns_
  std::optional<std::uint64_t> free_when_refused_, free_bytes_;
  std::uint64_t early_wait_ns_ = 0, early_ns_ = 0;
  std::uint32_t unknown_ = 0;  // refusals in a row with an unknown cause
  std::uint32_t losses_ = 0;   // in a row, of chunks of at least lost_from_ bytes
  std::uint64_t lost_ns_ = 0, lost_from_ = UINT64_MAX;
};

}  // namespace larder::remote
