// A copy engine of some kind for the conformance suite, and memory for its pages where it wants them.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cuda/copy_engine.h"

namespace larder::copy::testing_support {

// Pages, and what lies on them where the test can reach it: the pages themselves, or an image of them.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  virtual std::byte* pages() = 0;
  virtual std::byte* image() = 0;
  virtual void write() {}  // the image onto the pages
  virtual void read() {}   // and back
};

// Owns the engine, and what that needs.
class EngineBox {
 public:
  virtual ~EngineBox() = default;
  virtual const CopyEngine& engine() const = 0;
  virtual std::unique_ptr<PageMemory> make_pages(std::size_t bytes) = 0;
  // A slot as this kind wants it. Until all of it is ready, where it is to be.
  virtual std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte> slot) = 0;
  // A graph of the engine's own work, on this thread. False: it was not begun, or a call of somebody's has spoilt it.
  virtual bool begin_capture() { return true; }
  virtual bool end_capture() { return true; }
};

struct EngineKind {
  std::string name;
  std::function<std::unique_ptr<EngineBox>(std::string& why)> make;  // nullptr: this machine has none, and `why` says so
};

inline void PrintTo(const EngineKind& kind, std::ostream* out) {
  *out << kind.name;
}

// Of the program that the suite is in: all engines that need no GPU, or all that need one.
std::vector<EngineKind> engine_kinds();

}  // namespace larder::copy::testing_support
