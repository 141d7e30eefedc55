#include "cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace kvphase::cli {
namespace {

bool wants_color(ColorChoice choice, int descriptor) {
  if (choice == ColorChoice::kAlways) return true;
  if (choice == ColorChoice::kNever) return false;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  if (term != nullptr && std::strcmp(term, "dumb") == 0) return false;
  return ::isatty(descriptor) == 1;
}

void print_line(std::string_view prefix, std::string_view color, bool colored,
                std::string_view line) {
  if (colored) {
    fmt::print(stderr, "\x1b[{}m{}\x1b[0m{}\n", color, prefix, line);
  } else {
    fmt::print(stderr, "{}{}\n", prefix, line);
  }
}

}  // namespace

Console::Console(ColorChoice color, bool quiet)
    : quiet_(quiet),
      stderr_is_terminal_(::isatty(STDERR_FILENO) == 1),
      color_stdout_(wants_color(color, STDOUT_FILENO)),
      color_stderr_(wants_color(color, STDERR_FILENO)) {}

void Console::result(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void Console::progress(std::string_view line) const {
  if (!quiet_) fmt::print(stderr, "{}\n", line);
}

void Console::warning(std::string_view line) const {
  print_line("warning: ", "33", color_stderr_, line);
}

void Console::error(std::string_view line) const {
  print_line("kvphase: ", "31", color_stderr_, line);
}

void Console::progress_in_place(std::string_view line, bool last) const {
  if (quiet_) return;
  if (!stderr_is_terminal_) {
    fmt::print(stderr, "{}\n", line);
    return;
  }
  fmt::print(stderr, "\r\x1b[K{}{}", line, last ? "\n" : "");
  std::fflush(stderr);
}

void Console::finish() const {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw base::environment_error("output", "expected to write the result to stdout, got: {}",
                                  std::strerror(errno));
  }
}

}  // namespace kvphase::cli
