// The HTTP side of the API: a listening socket, a pool of threads, limits on what a client may
// send. Everything it says comes from Api. Must not know models.
#pragma once

#include <memory>
#include <string>

#include "lm/language_model.h"
#include "serve/options.h"

namespace kvphase::serve {

class Server {
 public:
  // `model` outlives the Server.
  Server(lm::LanguageModel& model, const ServeOptions& options);
  ~Server();  // stops

  // Listens in the background and returns the port; port 0 takes a free one. An environment error
  // says why it could not.
  int start(const std::string& host, int port);

  // Ends running generations at their next token and waits until every connection is closed.
  void stop();

  const std::string& model_name() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "http://127.0.0.1:8080"; an IPv6 address gets its brackets.
std::string server_url(const std::string& host, int port);

// Whether only this machine can reach the host.
bool is_loopback(const std::string& host);

}  // namespace kvphase::serve
