// _dl_find_object for C libraries that lack it (before 2.35).
//
// The unwinder of GCC 12's static libgcc calls this function of glibc to find the unwind tables of
// an address. The definition here is not exported, and keeps the library loadable on glibc 2.34
// (RHEL 9). It is slower than glibc's, and runs only when an exception is thrown.
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* result;
};

// The object whose loaded segments contain the address. Result 1 ends the iteration.
int look_into(dl_phdr_info* object, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const ElfW(Phdr)* hit = nullptr;
  const ElfW(Phdr)* unwind = nullptr;
  for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const std::uintptr_t start = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search->address >= start &&
        search->address < start + header.p_memsz)
      hit = &header;
    if (header.p_type == PT_GNU_EH_FRAME) unwind = &header;
  }
  if (hit == nullptr || unwind == nullptr) return 0;
  const std::uintptr_t start = object->dlpi_addr + hit->p_vaddr;
  search->result->dlfo_flags = 0;
  search->result->dlfo_map_start = reinterpret_cast<void*>(start);
  search->result->dlfo_map_end = reinterpret_cast<void*>(start + hit->p_memsz);
  search->result->dlfo_link_map = nullptr;
  search->result->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + unwind->p_vaddr);
  return 1;
}

}  // namespace

extern "C" int _dl_find_object(void* address, dl_find_object* result) {
  Search search{reinterpret_cast<std::uintptr_t>(address), result};
  return ::dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
