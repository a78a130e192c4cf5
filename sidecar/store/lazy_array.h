// LazyArray: zeroed memory of a fixed length. A page is charged at its first write. Owned by the
// thread of the store.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace larder::store {

template <typename T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit LazyArray(std::size_t count)
      : items_(static_cast<T*>(std::calloc(count, sizeof(T))), &std::free) {
    if (items_ != nullptr) return;
    if (const std::new_handler handler = std::get_new_handler()) handler();  // as operator new does
    throw std::bad_alloc();
  }
  T& operator[](std::size_t at) { return items_[at]; }
  const T& operator[](std::size_t at) const { return items_[at]; }

 private:
  std::unique_ptr<T[], decltype(&std::free)> items_;
};

}  // namespace larder::store
