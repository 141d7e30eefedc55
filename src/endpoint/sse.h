// Server-sent events: bytes in, whole events out. Must not know what an event means.
// Source: the WHATWG HTML standard, "Server-sent events", 9.2.6 Interpreting an event stream.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kvphase::endpoint {

struct SseEvent {
  std::string name;  // "message" unless an event: line says otherwise
  std::string data;  // the data: lines, joined by newlines
};

// Pieces may be cut anywhere, also inside a UTF-8 character or between CR and LF. Comment lines
// (": keep-alive"), empty lines and unknown fields are skipped.
class SseParser {
 public:
  // Calls on_event for every event that `piece` completes.
  void push(std::string_view piece, const std::function<void(const SseEvent&)>& on_event);

  // At the end of the stream: true when bytes of an event are left that no empty line closed. Calls
  // on_event for it: servers that end without the last empty line have still said it.
  bool finish(const std::function<void(const SseEvent&)>& on_event);

 private:
  void take_line(std::string_view line, const std::function<void(const SseEvent&)>& on_event);
  void dispatch(const std::function<void(const SseEvent&)>& on_event);

  std::string line_;  // the line so far
  bool after_cr_ = false;
  bool first_line_ = true;
  bool has_data_ = false;
  SseEvent event_;
};

}  // namespace kvphase::endpoint
