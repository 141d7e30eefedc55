#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/stop.h"
#include "cli/checkpoint_language.h"
#include "cli/command.h"
#include "cli/lab_api.h"
#include "serve/server.h"

namespace kvphase::cli {
namespace {

struct Options {
  std::string checkpoint;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string api_key_env;
  std::int64_t threads = 1;
  serve::ServeOptions server;
};

// From the named environment variable only, so that no key stands in a command line.
std::string api_key(const std::string& variable) {
  if (variable.empty()) return "";
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0') {
    throw base::usage_error("serve", "expected the key in the environment variable '{}', got {}",
                            variable, value == nullptr ? "no such variable" : "an empty one");
  }
  return value;
}

ExitCode serve_checkpoint(const Options& options, const Session& session) {
  serve::ServeOptions server_options = options.server;
  server_options.api_key = api_key(options.api_key_env);
  const auto model = load_lab().open_checkpoint(options.checkpoint, options.threads);
  if (const base::Json language = language_of_card(options.checkpoint); !language.is_null()) {
    server_options.about_model = {{"language", language}};
  }
  serve::Server server(*model, server_options);
  const int port = server.start(options.host, options.port);
  const std::string url = serve::server_url(options.host, port);
  if (!serve::is_loopback(options.host) && server_options.api_key.empty()) {
    session.console.warning(fmt::format(
        "[serve] anyone who can reach {} can use the model; --api-key-env asks for a key", url));
  }
  session.console.result(fmt::format("{}\n", url));
  session.console.finish();
  session.console.progress(
      fmt::format("serving {} (GET /v1/models); Ctrl-C stops", server.model_name()));
  while (!base::stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  session.console.progress("stopping");
  server.stop();
  return kSuccess;
}

}  // namespace

Action add_serve(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("checkpoint", options->checkpoint, "A folder that `kvphase train` wrote")
      ->required();
  app.add_option(
         "--host", options->host,
         "Where to listen (default: this machine only); without --api-key others may ask too")
      ->capture_default_str();
  app.add_option("--port", options->port, "0: any free one; the URL is printed")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--api-key-env", options->api_key_env,
                 "Name of the environment variable with the key that clients must send")
      ->type_name("NAME");
  app.add_option("--name", options->server.model_name, "The model's id; default: its own name");
  app.add_option("--max-logprobs", options->server.max_logprobs,
                 "Log-probabilities a client may ask for per token; -1: the whole vocabulary")
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--max-waiting", options->server.max_waiting,
                 "Requests that may wait for the model; one more gets status 503")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4096}))
      ->capture_default_str();
  app.add_option("--threads", options->threads, "Of the model")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}))
      ->capture_default_str();
  return [options](const Session& session) { return serve_checkpoint(*options, session); };
}

}  // namespace kvphase::cli
