// Where the program's words go: stdout carries the result and nothing else, stderr progress and
// warnings. Colour follows --color, NO_COLOR (https://no-color.org) and whether a terminal reads.
#pragma once

#include <string_view>

namespace kvphase::cli {

enum class ColorChoice { kAuto, kAlways, kNever };

class Console {
 public:
  Console(ColorChoice color, bool quiet);

  bool color_on_stdout() const { return color_stdout_; }
  bool color_on_stderr() const { return color_stderr_; }
  bool quiet() const { return quiet_; }
  bool stderr_is_terminal() const { return stderr_is_terminal_; }  // a line may be redrawn

  void result(std::string_view text) const;    // stdout, as it is; the caller ends its lines
  void progress(std::string_view line) const;  // a line on stderr; nothing with --quiet
  void warning(std::string_view line) const;   // a line on stderr, also with --quiet
  void error(std::string_view line) const;     // likewise

  // A line that replaces itself on a terminal; elsewhere every call is a plain line, so callers
  // should then call it rarely. `last` ends the line.
  void progress_in_place(std::string_view line, bool last) const;

  // Throws an environment error when stdout could not be written (disk full, closed pipe).
  void finish() const;

 private:
  bool quiet_;
  bool stderr_is_terminal_;
  bool color_stdout_;
  bool color_stderr_;
};

}  // namespace kvphase::cli
