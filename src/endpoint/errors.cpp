#include "endpoint/errors.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>

#include <fmt/format.h>
#include "endpoint/json_text.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>()
                            : found->dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::int64_t> count_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

bool is_over_context(const ErrorBody& error) {
  const std::string kind = error.type + " " + error.code;
  if (contains_any(kind, {"exceed_context_size", "context_exceeded", "context_length_exceeded"})) {
    return true;
  }
  const std::string message = lower(error.message);
  return contains_any(message,
                      {"maximum context length", "context length exceeded", "context size",
                       "context window", "exceeds the context", "exceeds the model's context",
                       "longer than the model's context", "maximum model length",
                       "prompt is too long", "input is too long", "too many tokens"}) ||
         (message.find("max_model_len") != std::string::npos &&
          contains_any(message, {"longer", "exceed", "greater"}));
}

bool is_no_balance(const ErrorBody& error) {
  return contains_any(lower(error.type + " " + error.code + " " + error.message),
                      {"insufficient_quota", "insufficient balance", "insufficient_balance",
                       "insufficient credits", "billing_hard_limit"});
}

}  // namespace

std::optional<ErrorBody> find_error(const Json& body) {
  if (!body.is_object()) return std::nullopt;
  ErrorBody error;
  const auto read = [&](const Json& object) {
    error.message = text_of(object, "message");
    error.type = text_of(object, "type");
    error.code = text_of(object, "code");
    error.prompt_tokens = count_of(object, "n_prompt_tokens");
    error.context_length = count_of(object, "n_ctx");
  };
  if (const auto found = body.find("error"); found != body.end() && !found->is_null()) {
    if (found->is_object()) {
      read(*found);
    } else if (found->is_boolean()) {
      if (!found->get<bool>()) return std::nullopt;
      read(body);
    } else {
      error.message = text_of(body, "error");
    }
    return error;
  }
  if (text_of(body, "object") == "error") {
    read(body);
    return error;
  }
  if (body.contains("choices") || body.contains("content") || body.contains("response")) {
    const auto choices = body.find("choices");
    if (choices != body.end() && choices->is_array() && !choices->empty() &&
        choices->front().is_object() && choices->front().contains("error")) {
      return find_error({{"error", choices->front()["error"]}});
    }
    return std::nullopt;
  }
  if (body.contains("detail")) {
    error.message = text_of(body, "detail");
    return error;
  }
  return std::nullopt;
}

void read_transport(const HttpResponse& response, Reply& reply) {
  reply.status = response.status;
  reply.detail = response.detail;
  switch (response.outcome) {
    case HttpOutcome::kOk:
    case HttpOutcome::kCancelled:
      break;
    case HttpOutcome::kConnectFailed:
      reply.outcome = Outcome::kNoConnection;
      break;
    case HttpOutcome::kTlsFailed:
      reply.outcome = Outcome::kTlsFailed;
      break;
    case HttpOutcome::kConnectTimeout:
    case HttpOutcome::kFirstByteTimeout:
    case HttpOutcome::kIdleTimeout:
    case HttpOutcome::kTotalTimeout:
      reply.outcome = Outcome::kTimeout;
      break;
    case HttpOutcome::kDisconnected:
      reply.outcome = Outcome::kDisconnected;
      break;
    case HttpOutcome::kTooLarge:
      reply.outcome = Outcome::kTooLarge;
      break;
    case HttpOutcome::kRedirectRefused:
      reply.outcome = Outcome::kRedirect;
      break;
    case HttpOutcome::kStopped:
      reply.outcome = Outcome::kStopped;
      break;
  }
}

void read_refusal(int status, const std::optional<ErrorBody>& error, std::string_view raw_body,
                  Reply& reply) {
  reply.status = status;
  ErrorBody said = error.value_or(ErrorBody{});
  if (said.message.empty()) said.message = excerpt(raw_body, 400);
  reply.detail = fmt::format("HTTP {}: {}", status, excerpt(said.message, 240));
  if (is_over_context(said)) {
    reply.outcome = Outcome::kOverContext;
    if (said.prompt_tokens && said.context_length) {
      reply.detail +=
          fmt::format(" (prompt {} tokens, context {})", *said.prompt_tokens, *said.context_length);
    }
    return;
  }
  if (status == 402 || is_no_balance(said)) {
    reply.outcome = Outcome::kNoBalance;
  } else if (status / 100 == 2) {
    reply.outcome = said.code == "429" || said.type == "rate_limit_exceeded"
                        ? Outcome::kRateLimited
                        : Outcome::kErrorInside;
  } else if (status == 401 || status == 403) {
    reply.outcome = Outcome::kAuth;
  } else if (status == 404 || status == 405) {
    reply.outcome = Outcome::kNotFound;
  } else if (status == 413) {
    reply.outcome = Outcome::kBodyTooLarge;
  } else if (status == 429) {
    reply.outcome = Outcome::kRateLimited;
  } else if (status == 503 || status == 529) {
    reply.outcome = Outcome::kOverloaded;
  } else if (status == 408 || status == 502 || status == 504 || status == 522 || status == 524) {
    reply.outcome = Outcome::kGatewayTimeout;
  } else if (status >= 500) {
    reply.outcome = Outcome::kServerError;
  } else if (status >= 400) {
    reply.outcome = Outcome::kBadRequest;
  } else {
    reply.outcome = Outcome::kOtherStatus;
  }
}

bool looks_like_error_text(std::string_view text) {
  const std::string low = lower(text.substr(0, 400));
  const std::size_t start = low.find_first_not_of(" \r\n\t");
  if (start == std::string::npos) return false;
  const std::string_view begin = std::string_view(low).substr(start);
  if (begin.starts_with("<!doctype html") || begin.starts_with("<html")) return true;
  if (begin.starts_with("{\"error\"") || begin.starts_with("{\"object\":\"error\"")) return true;
  return contains_any(
      begin, {"maximum context length", "context length exceeded", "exceeds the available context",
              "exceeds the context window", "exceed_context_size", "context_length_exceeded",
              "rate limit exceeded", "rate_limit_exceeded", "too many requests",
              "internal server error", "bad gateway", "gateway timeout", "gateway time-out",
              "service unavailable", "insufficient_quota", "invalid api key", "incorrect api key",
              "litellm.", "traceback (most recent call last)"});
}

std::optional<double> parse_duration(std::string_view text) {
  double total = 0;
  bool any = false;
  while (!text.empty()) {
    double value = 0;
    const auto [stop, error] =
        std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (error != std::errc{} || value < 0 || !std::isfinite(value)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    double unit = 1;
    if (text.starts_with("ms")) {
      unit = 1e-3;
      text.remove_prefix(2);
    } else if (!text.empty()) {
      switch (text.front()) {
        case 'd':
          unit = 86400;
          break;
        case 'h':
          unit = 3600;
          break;
        case 'm':
          unit = 60;
          break;
        case 's':
          unit = 1;
          break;
        default:
          return std::nullopt;
      }
      text.remove_prefix(1);
    } else if (any) {
      return std::nullopt;  // "1m30": a bare number only alone
    }
    total += value * unit;
    any = true;
  }
  if (!any) return std::nullopt;
  return total;
}

std::optional<double> parse_http_date(std::string_view text) {
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  // "Sun, 06 Nov 1994 08:49:37 GMT"
  if (text.size() < 29 || text[3] != ',' || !text.substr(26).starts_with("GMT")) {
    return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t size) {
    int value = -1;
    const auto part = text.substr(at, size);
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc{} && stop == part.data() + part.size() ? value : -1;
  };
  const std::size_t month = kMonths.find(text.substr(8, 3));
  std::tm time{};
  time.tm_mday = number(5, 2);
  time.tm_year = number(12, 4) - 1900;
  time.tm_hour = number(17, 2);
  time.tm_min = number(20, 2);
  time.tm_sec = number(23, 2);
  if (month == std::string_view::npos || month % 3 != 0 || time.tm_mday < 1 || time.tm_mday > 31 ||
      time.tm_year < 0 || time.tm_hour < 0 || time.tm_hour > 23 || time.tm_min < 0 ||
      time.tm_min > 59 || time.tm_sec < 0 || time.tm_sec > 60) {
    return std::nullopt;
  }
  time.tm_mon = static_cast<int>(month / 3);
  return static_cast<double>(timegm(&time));
}

std::optional<double> read_retry_after(const HttpResponse& response, double now) {
  if (const auto milliseconds = response.header("retry-after-ms")) {
    if (const auto value = parse_duration(*milliseconds)) return *value / 1000;
  }
  if (const auto header = response.header("retry-after")) {
    if (const auto seconds = parse_duration(*header)) return *seconds;
    if (const auto date = parse_http_date(*header)) return std::max(0.0, *date - now);
  }
  // Only a limit that is used up says how long to wait; the later of the two resets counts.
  std::optional<double> wait;
  for (const std::string kind : {"requests", "tokens"}) {
    const auto remaining = response.header("x-ratelimit-remaining-" + kind);
    const auto reset = response.header("x-ratelimit-reset-" + kind);
    if (!reset || (remaining && *remaining != "0")) continue;
    if (const auto seconds = parse_duration(*reset)) {
      wait = std::max(wait.value_or(0), *seconds);
    }
  }
  return wait;
}

}  // namespace kvphase::endpoint
