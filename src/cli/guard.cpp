// kvphase guard: a proxy in front of an OpenAI-compatible server that retests what asks for it.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/stop.h"
#include "cli/command.h"
#include "guard/proxy.h"
#include "serve/server.h"

namespace kvphase::cli {
namespace {

struct GuardArguments {
  guard::ProxyOptions proxy;
  std::string policy = "report";
  std::string host = "127.0.0.1";
  int port = 8090;
  std::int64_t seed = 1;
};

ExitCode run_guard(const GuardArguments& arguments, const Session& session) {
  guard::ProxyOptions options = arguments.proxy;
  options.guard.policy = guard::policy_of(arguments.policy);
  options.seed = static_cast<std::uint64_t>(arguments.seed);
  options.http.max_body = std::size_t{64} << 20;
  if (options.guard.filler.find_first_of(" \t\r\n") != std::string::npos ||
      options.guard.filler.empty()) {
    throw base::usage_error("guard", "expected a --filler of one word, got '{}'",
                            options.guard.filler);
  }
  guard::Proxy proxy(options);
  const int port = proxy.start(arguments.host, arguments.port);
  const std::string url = serve::server_url(arguments.host, port);
  if (!serve::is_loopback(arguments.host)) {
    session.console.warning(
        fmt::format("[guard] anyone who can reach {} can reach the upstream through it", url));
  }
  session.console.result(fmt::format("{}\n", url));
  session.console.finish();
  session.console.progress(
      fmt::format("guarding at {} offsets, policy {}; counts: {}/kvphase/metrics; Ctrl-C stops",
                  options.guard.offsets, arguments.policy, url));
  while (!base::stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  session.console.progress("stopping");
  proxy.stop();
  return kSuccess;
}

}  // namespace

Action add_guard(CLI::App& app) {
  const auto a = std::make_shared<GuardArguments>();
  guard::ProxyOptions& o = a->proxy;
  app.add_option("--upstream", o.upstream, "The server behind: http(s)://HOST:PORT[/v1]")
      ->required();
  app.add_option("--host", a->host, "Where to listen (default: this machine only)")
      ->capture_default_str();
  app.add_option("--port", a->port, "0: any free one; the URL is printed")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("-k,--offsets", o.guard.offsets,
                 "Offsets of a guarded request, the prompt as it came among them")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1024}).description(""))
      ->capture_default_str();
  app.add_option("--most-offsets", o.guard.most_offsets, "That a request may ask for")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1024}).description(""))
      ->capture_default_str();
  app.add_option(
         "--policy", a->policy,
         "report: the reply to the prompt as it came; majority: the answer of most offsets; "
         "refuse: status 422 unless all agree")
      ->capture_default_str();
  app.add_option("--repeats", o.guard.repeats,
                 "Replies per offset once two differ; with 4 at 4 offsets the reply says whether "
                 "the answer follows the offset or is random")
      ->check(CLI::Range(std::int64_t{1}, guard::kMostRepeats).description(""))
      ->capture_default_str();
  app.add_option("--sample", o.sample,
                 "Share of requests without a stream that are guarded unasked (default 0)")
      ->check(CLI::Range(0.0, 1.0).description(""));
  app.add_option("--filler", o.guard.filler, "Word to move by; should be one token")
      ->capture_default_str();
  app.add_option("--suffix", o.guard.suffix, "Of a model's name: guard this request")
      ->capture_default_str();
  app.add_option("--most-requests", o.most_requests, "At once; beyond: status 503")
      ->check(CLI::Range(1, 4096).description(""))
      ->capture_default_str();
  app.add_option("--most-guarded", o.most_guarded,
                 "Guarded ones at once; beyond: passed on unguarded, which the reply says")
      ->check(CLI::Range(1, 4096).description(""))
      ->capture_default_str();
  app.add_option("--timeout", o.http.timeouts.total, "Seconds for one upstream reply")
      ->check(CLI::PositiveNumber.description(""))
      ->capture_default_str();
  app.add_option("--seed", a->seed, "Of the sampling (default 1)")->check(CLI::NonNegativeNumber);
  return [a](const Session& session) { return run_guard(*a, session); };
}

}  // namespace kvphase::cli
