#include "tests/crash/restart_model.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <random>
#include <utility>

#include "tests/component/larderd_process.h"
#include "tests/crash/engine.h"

namespace larder::crash {
namespace {

using protocol::Verb;

// kUnsure: an act without an answer. Over a disk, a chunk that was ever asked for stays kStored or
// kUnsure.
enum class Known { kAbsent, kStored, kUnsure };

struct Chunk {
  std::uint64_t key = 0;
  Known known = Known::kAbsent;
  std::uint64_t generation = 0;
  bool in_memory = false, only_below = false;  // at larderd's death
};

constexpr int kWrongByte = 3, kRisen = 4;
constexpr std::uint32_t kActMs = 200, kFetchMs = 1000, kDropMs = 5000;
constexpr int kFetchAtLastMs = 3000;
// chunks on the disk to fetch after each death; more would evict the chunks in memory
constexpr int kSample = 40;

class Player {
 public:
  Player(const std::string& socket, std::uint64_t number, RestartModel& model)
      : engine_(socket, model.space, model.group),
        random_(number),
        next_key_((number + 1) << 32),
        model_(model) {
    for (Chunk& chunk : chunks_) chunk.key = next_key_++;
  }

  int play() {
    if (!engine_.attached()) return 1;
    epoch_ = new_epoch();
    if (model_.below) drop();  // ends the pins of an earlier engine
    model_.attached = true;
    while (goes_on()) {
      if (model_.died != round_)
        outlive(model_.died);
      else
        act(any());
    }
    if (model_.below && wrong_ == 0) drop();
    return wrong_;
  }

 private:
  bool goes_on() const { return !model_.stop && wrong_ == 0; }
  Chunk& any() { return chunks_[random_() % chunks_.size()]; }

  void act(Chunk& chunk) {
    if (chunk.known == Known::kAbsent) return store(chunk);
    if (model_.below) return act_over_disk(chunk);
    if (chunk.known == Known::kStored && random_() % 6 == 0) return evict(chunk);
    load(chunk);
  }

  void act_over_disk(Chunk& chunk) {
    const std::uint64_t dice = random_() % 4096;
    if (dice == 0) return drop();
    if (dice < 600) {  // another prompt: the stored chunks are left alone
      chunk = {next_key_++};
    } else if (dice < 1000) {
      constexpr Verb kVerbs[] = {Verb::kEvict, Verb::kEvict, Verb::kPin,
                                 Verb::kUnpin, Verb::kUnpin, Verb::kPrefetch};
      engine_.act(kVerbs[dice % 6], chunk.key, kActMs);
    } else if (engine_.present(chunk.key)) {
      load(chunk);
    } else if (engine_.reachable(chunk.key)) {
      fetch(chunk);
    } else {
      store(chunk);
    }
  }

  void store(Chunk& chunk) {
    if (!model_.below || chunk.generation == 0) chunk.generation = random_() | 1;
    chunk.known = Known::kUnsure;
    model_.stored += engine_.store({chunk.key}, chunk.generation, 100);
    if (test::eventually([&] { return engine_.present(chunk.key); }, 0))
      chunk.known = Known::kStored;
  }

  void evict(Chunk& chunk) {
    chunk.known = Known::kUnsure;
    if (engine_.act(Verb::kEvict, chunk.key, kActMs)) chunk.known = Known::kAbsent;
  }

  bool load(const Chunk& chunk) {
    if (engine_.load({chunk.key}) != Code::kOk) return false;
    ++model_.loads;
    if (!engine_.holds_bytes_of({chunk.key}, chunk.generation)) wrong_ = kWrongByte;
    return true;
  }

  // Fetches a chunk from the disk and loads it. Returns whether the chunk was right.
  bool fetch(const Chunk& chunk) {
    const Engine::Fetched fetched = engine_.fetch(chunk.key, kFetchMs);
    if (fetched.whole && chunk.known == Known::kAbsent) wrong_ = kRisen;
    const bool there = fetched.whole && load(chunk);
    model_.fetched += there && fetched.read;
    if (fetched.ticket != 0) engine_.client().lower_tiers().fetches().end(fetched.ticket);
    return there;
  }

  // The same with repetition: after a restart the whole memory may be held, or being written down,
  // for a while.
  bool fetch_at_last(const Chunk& chunk) {
    bool there = false;
    test::eventually([&] { return (there = fetch(chunk)) || gone(chunk) || !goes_on(); },
                     kFetchAtLastMs);
    return there;
  }
  bool gone(const Chunk& chunk) {
    return engine_.client().state().attached && !engine_.reachable(chunk.key);
  }

  // While larderd is away, the client finds no chunk until larderd has done the drop.
  void drop() {
    for (Chunk& chunk : chunks_) chunk = {chunk.key};
    engine_.drop();
    if (engine_.client().wait_namespace(0, kDropMs).ok()) ++model_.drops;
  }

  // Larderd is dead, and another one will run.
  void outlive(std::uint64_t round) {
    round_ = round;
    if (model_.below) note_what_was_there();
    model_.noted = round;
    // Loads go on in the earlier index. Over a disk a store would evict chunks that are checked
    // later.
    while (model_.started != round && goes_on()) {
      Chunk& chunk = any();
      if (!model_.below)
        act(chunk);
      else if (chunk.in_memory)
        load(chunk);
    }
    if (goes_on()) look_through();
    model_.checked = round;
    while (model_.go_on != round && goes_on()) ::usleep(200);
    if (model_.below) look_below();
    model_.probed = round;
  }

  void note_what_was_there() {
    for (Chunk& chunk : chunks_) {
      chunk.in_memory = engine_.present(chunk.key);
      chunk.only_below = !chunk.in_memory && engine_.reachable(chunk.key);
      if (chunk.in_memory && chunk.known == Known::kAbsent) wrong_ = kRisen;
    }
  }

  // After a restart. Acknowledged chunks are there; other chunks may be.
  void look_through() {
    const std::uint64_t before = epoch_;
    if (!test::eventually([&] { return (epoch_ = new_epoch()) != 0 && epoch_ != before; }, 20'000))
      wrong_ = 1;
    // The last COMMIT or EVICT may have gone to this larderd. It answers in order, so that both are
    // done before the chunks are looked at.
    if (!model_.below && !engine_.act(protocol::Verb::kPrefetch, chunks_[0].key, 20'000))
      wrong_ = 1;
    for (std::size_t i = 0; i < chunks_.size() && wrong_ == 0; ++i) {
      Chunk& chunk = chunks_[i];
      if (chunk.known == Known::kAbsent) {
        if (engine_.present(chunk.key)) wrong_ = kRisen;
        continue;
      }
      const bool expected = model_.below ? chunk.in_memory : chunk.known == Known::kStored;
      const bool there = load(chunk);
      model_.acknowledged += expected;
      model_.back += expected && there;
      // Requests to the dead larderd will never be done.
      if (!model_.below) chunk.known = there ? Known::kStored : Known::kAbsent;
    }
  }

  // Checks chunks on the disk alone, and dropped chunks that must not be there.
  void look_below() {
    for (int i = 0; i < kSample && goes_on(); ++i) {
      Chunk& chunk = any();
      if (!chunk.only_below && chunk.known != Known::kAbsent) continue;
      const bool before = std::exchange(chunk.only_below, false),
                 there = before ? fetch_at_last(chunk) : fetch(chunk);
      model_.below_before += before;
      model_.below_back += before && there;
      model_.below_gone += before && !there && gone(chunk);
    }
  }

  std::uint64_t new_epoch() {
    const client::State state = engine_.client().state();
    return state.attached ? state.epoch : 0;
  }

  Engine engine_;
  std::mt19937_64 random_;
  std::uint64_t next_key_;
  RestartModel& model_;
  std::array<Chunk, RestartModel::kKeys> chunks_{};
  std::uint64_t epoch_ = 0, round_ = 0;
  int wrong_ = 0;
};

}  // namespace

RestartModel& RestartModel::make() {
  void* memory = ::mmap(nullptr, sizeof(RestartModel), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::_exit(5);
  return *new (memory) RestartModel();
}

int live_by_model(const std::string& socket, std::uint64_t engine, RestartModel& model) {
  Player player(socket, engine, model);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  const int status = player.play();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return status;
}

}  // namespace larder::crash
