#include "tests/crash/restart_model.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <random>

#include "tests/component/larderd_process.h"
#include "tests/crash/engine.h"

namespace larder::crash {
namespace {

enum class Known { kAbsent, kStored, kUnsure };  // unsure: asked for, and not answered before the session was lost

struct Chunk {
  Known known = Known::kAbsent;
  std::uint64_t generation = 0;
};

constexpr int kWrongByte = 3, kRisen = 4;

class Player {
 public:
  Player(const std::string& socket, std::uint64_t number, RestartModel& model)
      : engine_(socket), random_(number), first_key_((number + 1) * 1'000'000), model_(model) {}

  int play() {
    if (!engine_.attached()) return 1;
    epoch_ = new_epoch();
    model_.attached = true;
    while (!model_.stop && wrong_ == 0) {
      if (model_.asked != model_.checked) {
        look_through();
        model_.checked = model_.asked.load();
      } else {
        act(random_() % RestartModel::kKeys);
      }
    }
    return wrong_;
  }

 private:
  std::uint64_t key(std::uint64_t i) const { return first_key_ + i; }

  void act(std::uint64_t i) {
    Chunk& chunk = chunks_[i];
    if (chunk.known == Known::kAbsent) return store(i, chunk);
    if (chunk.known == Known::kStored && random_() % 6 == 0) return evict(i, chunk);
    load(i, chunk);
  }

  void store(std::uint64_t i, Chunk& chunk) {
    chunk = {Known::kUnsure, random_()};
    engine_.store({key(i)}, chunk.generation, 100);
    if (test::eventually([&] { return engine_.present(key(i)); }, 0)) chunk.known = Known::kStored;
  }

  void evict(std::uint64_t i, Chunk& chunk) {
    chunk.known = Known::kUnsure;
    const protocol::BlockHash hash = hash_of(key(i));
    const client::Hashes hashes{reinterpret_cast<const std::uint8_t*>(&hash), sizeof(hash), 1};
    const auto done = engine_.client().act(protocol::Verb::kEvict, hashes, 200);
    if (done.ok()) chunk.known = Known::kAbsent;
  }

  bool load(std::uint64_t i, Chunk& chunk) {
    if (engine_.load({key(i)}) != Code::kOk) return false;
    ++model_.loads;
    if (!engine_.holds_bytes_of({key(i)}, chunk.generation)) wrong_ = kWrongByte;
    return true;
  }

  // After a restart. What was acknowledged is there; of what was not, nobody knows.
  void look_through() {
    const std::uint64_t before = epoch_;
    if (!test::eventually([&] { return (epoch_ = new_epoch()) != 0 && epoch_ != before; }, 20'000)) wrong_ = 1;
    for (std::uint64_t i = 0; i < chunks_.size() && wrong_ == 0; ++i) {
      Chunk& chunk = chunks_[i];
      const Known known = chunk.known;
      if (known == Known::kAbsent) {
        if (engine_.present(key(i))) wrong_ = kRisen;
        continue;
      }
      const bool there = load(i, chunk);
      model_.acknowledged += known == Known::kStored;
      model_.back += known == Known::kStored && there;
      chunk.known = there ? Known::kStored : Known::kAbsent;  // what was asked of the dead one will not be done any more
    }
  }
  std::uint64_t new_epoch() {
    const client::State state = engine_.client().state();
    return state.attached ? state.epoch : 0;
  }

  Engine engine_;
  std::mt19937_64 random_;
  const std::uint64_t first_key_;
  RestartModel& model_;
  std::array<Chunk, RestartModel::kKeys> chunks_{};
  std::uint64_t epoch_ = 0;
  int wrong_ = 0;
};

}  // namespace

RestartModel& RestartModel::make() {
  void* memory = ::mmap(nullptr, sizeof(RestartModel), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
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
