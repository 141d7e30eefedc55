#include "endpoint/sse.h"

namespace kvphase::endpoint {

void SseParser::push(std::string_view piece, const std::function<void(const SseEvent&)>& on_event) {
  while (!piece.empty()) {
    if (after_cr_) {  // CR LF is one line end
      after_cr_ = false;
      if (piece.front() == '\n') piece.remove_prefix(1);
      continue;
    }
    const std::size_t end = piece.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      line_ += piece;
      return;
    }
    after_cr_ = piece[end] == '\r';
    if (line_.empty()) {
      take_line(piece.substr(0, end), on_event);
    } else {
      line_ += piece.substr(0, end);
      take_line(line_, on_event);
      line_.clear();
    }
    piece.remove_prefix(end + 1);
  }
}

bool SseParser::finish(const std::function<void(const SseEvent&)>& on_event) {
  if (!line_.empty()) {
    const std::string line = std::move(line_);
    line_.clear();
    take_line(line, on_event);
  }
  const bool open = has_data_;
  dispatch(on_event);
  return open;
}

void SseParser::take_line(std::string_view line,
                          const std::function<void(const SseEvent&)>& on_event) {
  if (first_line_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  first_line_ = false;
  if (line.empty()) {
    dispatch(on_event);
    return;
  }
  if (line.front() == ':') return;
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    event_.name = value;
  }
}

void SseParser::dispatch(const std::function<void(const SseEvent&)>& on_event) {
  if (has_data_) {
    if (event_.name.empty()) event_.name = "message";
    on_event(event_);
  }
  event_ = {};
  has_data_ = false;
}

}  // namespace kvphase::endpoint
