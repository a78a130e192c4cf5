// Random pods: of every shape that the injector knows, combined at random, and some damaged.
//
// The same seed gives the same pods. One thread.
#pragma once

#include <random>
#include <span>

#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {

struct RandomPod {
  InjectionCase one;
  // the choice of each kind: two pods of one shape differ in names and numbers alone
  std::string shape;
  bool damaged = false;
};

class RandomPods {
 public:
  explicit RandomPods(std::uint64_t seed) : random_(seed) {}
  RandomPod next();

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  bool one_in(std::size_t count) { return below(count) == 0; }
  // One of the YAML texts; its number goes into the shape.
  api::Object choose(std::span<const char* const> texts);
  api::Object container();
  void fill_spec(api::Object& spec);
  void fill_metadata(api::Object& metadata);
  void choose_pool(InjectionCase& one);
  void choose_namespace(InjectionCase& one);
  void damage(api::Object& object);

  std::mt19937_64 random_;
  std::string shape_;
};

}  // namespace larder::test
