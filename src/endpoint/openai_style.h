// What all OpenAI-style servers share: /v1/chat/completions and /v1/completions. The kinds with
// more derive from it.
#pragma once

#include "endpoint/server.h"

namespace kvphase::endpoint {

class OpenAiStyle : public ServerApi {
 public:
  OpenAiStyle(ServerKind kind, ServerSettings settings)
      : ServerApi(std::move(settings)), kind_(kind) {}

  ServerKind kind() const override { return kind_; }
  Capabilities capabilities() const override;
  WireRequest completion(const CompletionRequest& request) const override;
  void read(const base::Json& body, const CompletionRequest& request, Reply& reply) const override;
  bool fold(base::Json& whole, const base::Json& event) const override;

 protected:
  // The body of either route, before the kind's own members and settings().extra.
  base::Json common_body(const CompletionRequest& request) const;
  // Kind's own members: reasoning switches, cache switches, what to return.
  virtual void add_members(base::Json& body, const CompletionRequest& request) const;
  // Path and body of the route that the prompt form needs.
  WireRequest finish(base::Json body, const CompletionRequest& request) const;

  ServerKind kind_;
};

}  // namespace kvphase::endpoint
