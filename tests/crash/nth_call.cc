// libnth_call.so, for LD_PRELOAD: the nth call of one kind fails, as the kernel or the allocator
// may fail it.
//
//   NTH_KIND      the counted kind: malloc, mmap, open, read or write
//   NTH_CALL      the number of the failing call, from 0 on
//   NTH_MARK      a file that is made after the failure; no file: the process made fewer calls
//   NTH_NO_URING  io_uring is refused, as in a container: its reads and writes are no libc calls
//
// open: all calls that give a descriptor, and locks. read, write: of files and sockets, and calls
// that make a file longer, durable or named. No code here allocates.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

enum class Kind { kNone, kMalloc, kMmap, kOpen, kRead, kWrite };
Kind kind = Kind::kNone;
long call = -1;
std::atomic<long> counted{0};

void refuse_io_uring() {
  sock_filter steps[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                         {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_io_uring_setup},
                         {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                         {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog filter{4, steps};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

// Before main(); no call counts before.
__attribute__((constructor)) void begin() {
  if (std::getenv("NTH_NO_URING") != nullptr) refuse_io_uring();
  const char *name = std::getenv("NTH_KIND"), *number = std::getenv("NTH_CALL");
  if (name == nullptr || number == nullptr) return;
  call = std::atol(number);
  constexpr const char* kNames[] = {"", "malloc", "mmap", "open", "read", "write"};
  for (int i = 1; i < 6; ++i)
    if (std::strcmp(name, kNames[i]) == 0) kind = static_cast<Kind>(i);
}

bool fails(Kind which) {
  if (which != kind || counted.fetch_add(1) != call) return false;
  if (const char* mark = std::getenv("NTH_MARK"))
    ::syscall(SYS_close,
              static_cast<int>(::syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600)));
  return true;
}

bool no_memory() {
  if (!fails(Kind::kMalloc)) return false;
  errno = ENOMEM;
  return true;
}

// Not of eventfds, timers and signals, which do not fail.
bool file_or_socket(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode));
}

template <typename Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

template <typename Result = int>
Result failed(int error) {
  errno = error;
  return static_cast<Result>(-1);
}

}  // namespace

// In the product's own words: name, parameters, arguments, and the error.
#define NTH_CALL_OF(WHICH, ERROR, RESULT, NAME, PARAMETERS, ARGUMENTS, CONDITION) \
  extern "C" RESULT NAME PARAMETERS {                                             \
    static const auto real = next(&NAME, #NAME);                                  \
    if ((CONDITION) && fails(Kind::WHICH)) return failed<RESULT>(ERROR);          \
    return real ARGUMENTS;                                                        \
  }

extern "C" {

void* malloc(std::size_t size) noexcept {
  return no_memory() ? nullptr : __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  return no_memory() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  return no_memory() ? nullptr : __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return no_memory() ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  *memory = no_memory() ? nullptr : __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int fd,
           off_t offset) noexcept {
  static const auto real = next(&mmap, "mmap");
  if (!fails(Kind::kMmap)) return real(address, bytes, protection, flags, fd, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}

int open(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (fails(Kind::kOpen)) return failed(EMFILE);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int posix_fallocate(int fd, off_t offset, off_t bytes) {
  static const auto real = next(&posix_fallocate, "posix_fallocate");
  return fails(Kind::kWrite) ? ENOSPC : real(fd, offset, bytes);
}

}  // extern "C"

NTH_CALL_OF(kOpen, EMFILE, int, memfd_create, (const char* name, unsigned flags) noexcept,
            (name, flags), true)
NTH_CALL_OF(kOpen, EMFILE, int, socket, (int domain, int type, int protocol) noexcept,
            (domain, type, protocol), true)
NTH_CALL_OF(kOpen, EMFILE, int, accept4, (int fd, sockaddr* peer, socklen_t* bytes, int flags),
            (fd, peer, bytes, flags), true)
NTH_CALL_OF(kOpen, EMFILE, int, epoll_create1, (int flags) noexcept, (flags), true)
NTH_CALL_OF(kOpen, EMFILE, int, eventfd, (unsigned value, int flags) noexcept, (value, flags), true)
NTH_CALL_OF(kOpen, EMFILE, int, timerfd_create, (clockid_t clock, int flags) noexcept,
            (clock, flags), true)
NTH_CALL_OF(kOpen, EMFILE, int, dup, (int fd) noexcept, (fd), true)
NTH_CALL_OF(kRead, EIO, ssize_t, read, (int fd, void* bytes, std::size_t count), (fd, bytes, count),
            file_or_socket(fd))
NTH_CALL_OF(kRead, EIO, ssize_t, pread, (int fd, void* bytes, std::size_t count, off_t at),
            (fd, bytes, count, at), true)
NTH_CALL_OF(kOpen, ENOLCK, int, flock, (int fd, int operation) noexcept, (fd, operation), true)
NTH_CALL_OF(kRead, EIO, ssize_t, preadv, (int fd, const iovec* parts, int count, off_t at),
            (fd, parts, count, at), true)
NTH_CALL_OF(kRead, EIO, ssize_t, recvmsg, (int fd, msghdr* message, int flags),
            (fd, message, flags), true)
NTH_CALL_OF(kWrite, ENOSPC, ssize_t, write, (int fd, const void* bytes, std::size_t count),
            (fd, bytes, count), file_or_socket(fd))
NTH_CALL_OF(kWrite, ENOSPC, ssize_t, pwrite,
            (int fd, const void* bytes, std::size_t count, off_t at), (fd, bytes, count, at), true)
NTH_CALL_OF(kWrite, EIO, ssize_t, pwritev, (int fd, const iovec* parts, int count, off_t at),
            (fd, parts, count, at), true)
NTH_CALL_OF(kWrite, EIO, int, fdatasync, (int fd), (fd), true)
NTH_CALL_OF(kWrite, ENOSPC, int, mkdir, (const char* path, mode_t mode) noexcept, (path, mode),
            true)
NTH_CALL_OF(kWrite, ENOBUFS, ssize_t, sendmsg, (int fd, const msghdr* message, int flags),
            (fd, message, flags), true)
NTH_CALL_OF(kWrite, ENOSPC, int, ftruncate, (int fd, off_t bytes) noexcept, (fd, bytes), true)
NTH_CALL_OF(kWrite, ENOSPC, int, fallocate, (int fd, int mode, off_t offset, off_t bytes),
            (fd, mode, offset, bytes), true)
NTH_CALL_OF(kWrite, EIO, int, rename, (const char* from, const char* to) noexcept, (from, to), true)
