// A thread of our own in an engine's process: it blocks every signal, since the engine's are for its own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace larder::copy::cuda {

// Throws std::system_error where none can be made.
template <typename Work>
std::thread quiet_thread(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread made(std::move(work));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return made;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace larder::copy::cuda
