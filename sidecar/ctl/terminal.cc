#include "sidecar/ctl/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "sidecar/base/text.h"

namespace larder::ctl {
namespace {

// Switches to the alternate screen of the terminal without a cursor, and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";
// Ctrl-C, a kill, and Ctrl-Z. SIGKILL cannot be handled: `reset` repairs the terminal then.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGTSTP};

// Safe in a signal handler.
void put(std::string_view text) {
  // One write a screen, so the terminal shows no half of a screen. A failure has no other place to
  // be known.
  const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
  static_cast<void>(written);
}

// Restores the terminal, then lets the signal act by default, so that the shell sees the signal.
void give_back(int number) {
  const int saved = errno;
  put(kLeave);
  if (number == SIGTSTP) {
    // SIGSTOP and not SIGTSTP, which this handler catches. The process continues here after `fg`.
    ::raise(SIGSTOP);
    put(kEnter);
  } else {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
  errno = saved;
}

winsize size_of_terminal() {
  winsize size{};
  // Asked at each screen, so a resized window needs no SIGWINCH.
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    size = {24, 80, 0, 0};
  return size;
}

// The lines that fit, each with a code that clears the rest of the line.
std::string fitted(std::string_view screen) {
  const winsize size = size_of_terminal();
  std::string text(kHome);
  for (unsigned row = 0; row < size.ws_row && !screen.empty(); ++row) {
    const std::size_t end = std::min(screen.find('\n'), screen.size());
    if (row > 0) text += '\n';
    text += base::cut(screen.substr(0, end), size.ws_col);
    text += kClearLine;
    screen.remove_prefix(std::min(end + 1, screen.size()));
  }
  return text.append(kClearBelow);
}

}  // namespace

Terminal::Terminal(bool whole) : whole_(whole && ::isatty(STDOUT_FILENO) == 1) {
  if (!whole_) return;
  for (const int number : kSignals) {
    struct sigaction action {};
    action.sa_handler = give_back;
    ::sigaction(number, &action, nullptr);
  }
  put(kEnter);
}

Terminal::~Terminal() {
  if (!whole_) return;
  put(kLeave);
  for (const int number : kSignals) ::signal(number, SIG_DFL);
}

void Terminal::show(const std::string& screen) {
  if (whole_) {
    put(fitted(screen));
    return;
  }
  std::printf("%s%s", first_ ? "" : "\n", screen.c_str());
  std::fflush(stdout);
  first_ = false;
}

}  // namespace larder::ctl
