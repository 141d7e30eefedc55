// What became of one completion: an answer, or missing with its cause. A missing reply is never
// wrong and never dropped. Must not know HTTP libraries or any one server's JSON.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lm/language_model.h"

namespace kvphase::endpoint {

enum class Outcome {
  kOk,
  // The transport failed.
  kNoConnection,
  kTlsFailed,
  kTimeout,
  kDisconnected,
  kTooLarge,
  kRedirect,
  kStopped,  // by the user
  // The server refused.
  kBadRequest,
  kOverContext,
  kBodyTooLarge,  // 413
  kAuth,
  kNoBalance,
  kNotFound,
  kRateLimited,
  kOverloaded,      // 503, 529, loading, no slot
  kGatewayTimeout,  // 408, 502, 504, 522, 524
  kServerError,
  kOtherStatus,
  // The server said yes, and yet there is no answer to grade.
  kErrorInside,  // HTTP 200 holding an error, or an error inside a stream
  kInvalidBody,
  kStreamCut,  // a stream that ended before its finish reason
  kErrorText,  // an error message where the answer should be
  kRefused,    // content filter
  kReasoningOnly,
  kEmpty,
  kTruncated,        // cut by max_tokens where the caller needs the end
  kPromptTruncated,  // usage says that the server read fewer tokens than were sent
  kPromptGrown,      // or more
};

std::string_view name_of(Outcome outcome);  // "ok", "no_connection", ...: journal's reply class

// Nothing came from the model: nobody is there, or the server refuses or breaks.
bool server_failed(Outcome outcome);

// Of a missing reply, by the name of its outcome: whether asking again is no choice among the
// model's answers. False where the model spoke and it was no answer (empty, refused, cut, only
// reasoning, an error's text), and for names that are none.
bool may_ask_again(std::string_view outcome_name);

struct TopToken {
  std::optional<lm::TokenId> id;
  std::string text;           // its bytes; may be no valid UTF-8; empty when only the id is known
  double logprob = 0;         // nats
  bool text_is_exact = true;  // false: U+FFFD or empty without bytes; several tokens can look so
};

// The first generated token.
struct FirstToken {
  std::optional<lm::TokenId> id;
  std::string text;
  bool text_is_exact = true;
  std::optional<double> logprob;  // nats
  std::vector<TopToken> top;      // likeliest first, usable values only
  int unusable = 0;               // entries left out: null, NaN, -inf, a floor such as -9999
  std::string note;               // why something is absent or left out
};

struct Usage {
  std::optional<std::int64_t> prompt_tokens;
  std::optional<std::int64_t> completion_tokens;
  std::optional<std::int64_t> cached_tokens;  // of the prompt's
  std::optional<std::int64_t> reasoning_tokens;
};

struct Reply {
  Outcome outcome = Outcome::kOk;
  std::string detail;  // of a missing reply, in words; without secrets
  int status = 0;      // HTTP's, 0: none came

  std::string text;  // the answer, without reasoning
  std::string reasoning;
  std::string finish_reason;  // as the server says it, lower case; empty: not said
  std::optional<FirstToken> first;
  std::string first_absent;  // why there is no first token
  Usage usage;
  std::vector<lm::TokenId> prompt_ids;     // where the server returns them
  std::vector<lm::TokenId> generated_ids;  // likewise
  std::vector<std::string> notes;          // repairs made while reading

  double first_byte_seconds = 0;  // of the last attempt: asked to header read
  double total_seconds = 0;       // of the last attempt: asked to body read
  double waited_seconds = 0;      // between attempts
  int attempts = 1;
  std::optional<double> retry_after;  // seconds the server asked to wait, before the next attempt

  bool answered() const { return outcome == Outcome::kOk; }
};

// The first distinct error of each kind, with a count. A kind is the outcome, the HTTP status and
// the message with its digits taken out. Any number of threads may add.
class ErrorLog {
 public:
  struct Entry {
    Outcome outcome;
    int status;
    std::string first_detail;
    std::int64_t count;
  };
  void add(const Reply& reply);        // of an answered reply: does nothing
  std::vector<Entry> entries() const;  // most frequent first

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace kvphase::endpoint
