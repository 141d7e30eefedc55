// What the requests of a run cost, and caps that no request may break. Tokens are the server's own
// counts where it gives any, else estimates on the high side. Pure: no clock, no sending.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "endpoint/reply.h"
#include "endpoint/server.h"

namespace kvphase::endpoint {

// Money per million tokens, in whatever currency the caller thinks.
struct Prices {
  double in = 0;      // prompt tokens read anew
  double cached = 0;  // prompt tokens from a cache
  double out = 0;     // generated tokens, reasoning included
};

struct Spent {
  std::int64_t requests = 0;           // attempts, the retried and failed ones included
  std::int64_t prompt_tokens = 0;      // cached ones included
  std::int64_t cached_tokens = 0;      // of prompt_tokens
  std::int64_t completion_tokens = 0;  // generated

  std::int64_t tokens() const { return prompt_tokens + completion_tokens; }
  bool operator==(const Spent&) const = default;
};

Spent operator+(const Spent& a, const Spent& b);
double cost_of(const Spent& spent, const Prices& prices);

// Empty: no cap.
struct Caps {
  std::optional<std::int64_t> requests;
  std::optional<std::int64_t> tokens;
  std::optional<double> cost;
};

// The cap that `spent` breaks, with both numbers ("120 requests, --max-requests 100"); empty: none.
std::string broken_cap(const Spent& spent, const Prices& prices, const Caps& caps);

// Most that one attempt can cost, from the request alone.
Spent most_of(const CompletionRequest& request);

// Any number of threads may call it.
class Spending {
 public:
  Spending(const Caps& caps, const Prices& prices) : caps_(caps), prices_(prices) {}

  // Sets aside what one attempt may cost; a ticket, or empty when that would break a cap.
  std::optional<std::int64_t> admit(const CompletionRequest& request);
  // What the attempt did cost.
  void settle(std::int64_t ticket, const Reply& reply);

  Spent spent() const;                  // settled, and what is set aside for requests under way
  double cost() const;                  // of spent()
  std::string refused_because() const;  // the cap at which admit() refused; empty: it never did

 private:
  Caps caps_;
  Prices prices_;
  mutable std::mutex mutex_;
  Spent settled_;
  std::map<std::int64_t, Spent> under_way_;
  std::int64_t next_ticket_ = 0;
  std::string refused_;
};

}  // namespace kvphase::endpoint
