// Reads what servers say when they refuse: HTTP status, the known envelopes of error bodies, and
// error messages that stand where an answer should. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "endpoint/http.h"
#include "endpoint/reply.h"

namespace kvphase::endpoint {

// The parts of an error body: {"error":{"message","type","code"}} (OpenAI, vLLM, llama.cpp),
// {"error":"text"} (Ollama), {"object":"error","message",...} (SGLang), {"detail":...} (FastAPI).
struct ErrorBody {
  std::string message;
  std::string type;
  std::string code;
  std::optional<std::int64_t> prompt_tokens;   // of an over-context error
  std::optional<std::int64_t> context_length;  // likewise
};

// Empty: the body holds no error.
std::optional<ErrorBody> find_error(const base::Json& body);

// Fills outcome, detail and status (not the redaction) of a reply that did not come whole.
void read_transport(const HttpResponse& response, Reply& reply);

// The same for a status that is not 2xx, and for an error found in a 2xx body (status 200 then).
void read_refusal(int status, const std::optional<ErrorBody>& error, std::string_view raw_body,
                  Reply& reply);

// True for texts such as "This model's maximum context length is 8192 tokens" or an HTML page:
// gateways hand them out as answers with HTTP 200.
bool looks_like_error_text(std::string_view text);

// Retry-After in seconds or as an HTTP date (against `now`, seconds since 1970), retry-after-ms,
// and the x-ratelimit-reset-* headers of an exhausted limit ("1s", "6m30s", "120ms").
std::optional<double> read_retry_after(const HttpResponse& response, double now);

// "6m30s", "1h2m3.5s", "120ms", "20": seconds; empty: none of these.
std::optional<double> parse_duration(std::string_view text);

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7): seconds since 1970.
std::optional<double> parse_http_date(std::string_view text);

}  // namespace kvphase::endpoint
