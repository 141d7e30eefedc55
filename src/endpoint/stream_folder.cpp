#include "endpoint/stream_folder.h"

#include <fmt/format.h>

#include "endpoint/json_text.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

bool is_plain_json(std::string_view piece) {
  const std::size_t start = piece.find_first_not_of(" \r\n\t");
  return start != std::string_view::npos && piece[start] == '{';
}

}  // namespace

bool StreamFolder::push(std::string_view piece) {
  if (plain_ || (!json_lines_ && !started_ && is_plain_json(piece))) {
    plain_ = true;
    text_ += piece;
    return true;
  }
  // Empty lines keep a connection alive; what follows them may still be one plain body.
  started_ = started_ || piece.find_first_not_of(" \r\n\t") != std::string_view::npos;
  if (!json_lines_) {
    parser_.push(piece, [this](const SseEvent& event) { take(event.data); });
  } else {
    text_ += piece;
    std::size_t start = 0;
    for (std::size_t end = 0; (end = text_.find('\n', start)) != std::string::npos;
         start = end + 1) {
      take(std::string_view(text_).substr(start, end - start));
    }
    text_.erase(0, start);
  }
  return !failed_;
}

void StreamFolder::finish(const CompletionRequest& request, Reply& reply) {
  if (plain_) {  // a server that answers a stream request with one body
    whole_ = Json();
    take(text_);
    finished_ = !failed_;
  } else if (json_lines_) {
    if (text_.find_first_not_of(" \r\n") != std::string::npos) take(text_);
  } else {
    parser_.finish([this](const SseEvent& event) { take(event.data); });
  }
  if (error_) {
    read_refusal(200, error_, error_->message, reply);
    reply.detail = "inside the stream: " + reply.detail;
  } else if (failed_) {
    reply.outcome = Outcome::kInvalidBody;
    reply.detail = "inside the stream: " + problem_;
  } else if (!finished_) {
    reply.outcome = Outcome::kStreamCut;
    reply.detail = fmt::format("the stream ended after {} events without a finish reason{}",
                               events_, reply.detail.empty() ? "" : ": " + reply.detail);
  } else {
    api_.read(whole_, request, reply);
  }
}

void StreamFolder::take(std::string_view data) {
  if (failed_ || data.find_first_not_of(" \r\n") == std::string_view::npos) return;
  if (data == "[DONE]") return;
  const JsonText json = read_json(data);
  if (!json.value) {
    failed_ = true;
    problem_ = json.problem;
    return;
  }
  if ((error_ = find_error(*json.value))) {
    failed_ = true;
    return;
  }
  ++events_;
  if (plain_) {
    whole_ = *json.value;
  } else if (api_.fold(whole_, *json.value)) {
    finished_ = true;
  }
}

}  // namespace kvphase::endpoint
