// A streamed reply, folded into the one body that a kind of server's read() understands. Internal
// to endpoint/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "endpoint/errors.h"
#include "endpoint/reply.h"
#include "endpoint/server.h"
#include "endpoint/sse.h"

namespace kvphase::endpoint {

class StreamFolder {
 public:
  // `api` outlives it. json_lines: a line each in place of server-sent events.
  StreamFolder(const ServerApi& api, bool json_lines) : api_(api), json_lines_(json_lines) {}

  bool push(std::string_view piece);  // false: what comes next cannot help
  // Fills the reply from what came.
  void finish(const CompletionRequest& request, Reply& reply);
  bool anything() const { return events_ > 0; }

 private:
  void take(std::string_view data);

  const ServerApi& api_;
  bool json_lines_;
  SseParser parser_;
  std::string text_;
  base::Json whole_ = base::Json::object();
  std::optional<ErrorBody> error_;
  std::string problem_;
  std::int64_t events_ = 0;
  bool started_ = false;
  bool plain_ = false;
  bool failed_ = false;
  bool finished_ = false;
};

}  // namespace kvphase::endpoint
