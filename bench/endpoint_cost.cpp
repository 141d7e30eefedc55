// What a request costs the client: processor time, memory, requests per second. The server runs in
// its own process on 127.0.0.1 and answers at once.
// Timed window: from the request's tokens to the read reply (JSON written, sent, received, read),
// of the client process alone by getrusage; the server's and the kernel's work for it is not in it.
// What it is not: latency of a real server, or throughput over a network.
// Usage: endpoint_cost [small requests] [large requests]
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "endpoint/client.h"
#include "tests/scripted_server/engines.h"

namespace {

using kvphase::endpoint::Client;
using kvphase::endpoint::ClientOptions;
using kvphase::endpoint::CompletionRequest;

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Peak resident memory since the last reset, MiB.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}
void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

void measure(Client& client, const char* name, std::size_t count, std::size_t tokens,
             std::size_t block) {
  reset_peak_memory();
  const kvphase::base::Stopwatch watch;
  const double before = processor_seconds();
  std::size_t answered = 0;
  for (std::size_t done = 0; done < count; done += block) {
    std::vector<CompletionRequest> requests;
    for (std::size_t i = done; i < std::min(done + block, count); ++i) {
      CompletionRequest request{.max_tokens = 1, .top_logprobs = 20};
      request.tokens.resize(tokens);
      for (std::size_t t = 0; t < tokens; ++t) {
        request.tokens[t] = static_cast<std::int32_t>(10'000 + (i + t) % 80'000);
      }
      requests.push_back(std::move(request));
    }
    for (const auto& reply : client.complete_all(requests, nullptr)) {
      answered += reply.answered() ? 1 : 0;
    }
  }
  const double processor = processor_seconds() - before;
  const double wall = watch.seconds();
  const auto n = static_cast<double>(count);
  fmt::print(
      "{}: {} of {} answered; {:.3f} ms processor time a request = {:.0f} requests/s from one "
      "core; {:.0f} requests/s by the clock; peak memory {:.0f} MiB\n",
      name, answered, count, processor / n * 1e3, n / processor, n / wall, peak_memory());
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t small = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 4000;
  const std::size_t large = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 128;
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The reply is made once: twenty rivals, as vLLM gives them.
    kvphase::base::Json top = kvphase::base::Json::object();
    for (int i = 0; i < 20; ++i) top["token_id:" + std::to_string(i)] = -0.1 - i;
    const std::string completion =
        kvphase::base::Json({{"choices",
                              {{{"text", "w0"},
                                {"finish_reason", "length"},
                                {"logprobs",
                                 {{"tokens", {"token_id:0"}},
                                  {"token_logprobs", {-0.1}},
                                  {"top_logprobs", kvphase::base::Json::array({top})}}}}}}})
            .dump();
    kvphase::scripted::ScriptedServer server([&](const kvphase::scripted::Request& request) {
      if (request.method == "POST") return kvphase::scripted::Reply{.body = completion};
      return kvphase::scripted::json_reply(
          {{"data", {{{"id", "bench"}, {"owned_by", "kvphase"}, {"max_model_len", 1 << 20}}}}});
    });
    server.keep_requests(false);
    const int port = server.port();
    if (write(pipe_ends[1], &port, sizeof port) != sizeof port) _exit(1);
    pause();
    _exit(0);
  }
  int port = 0;
  if (read(pipe_ends[0], &port, sizeof port) != sizeof port) return 1;
  {
    ClientOptions options;
    options.concurrency = 8;
    Client client("http://127.0.0.1:" + std::to_string(port), options);
    measure(client, "small requests, 64 tokens, 8 at once", small, 64, small);
  }
  {
    ClientOptions options;
    options.concurrency = 64;
    Client client("http://127.0.0.1:" + std::to_string(port), options);
    measure(client, "large requests, 131072 tokens, 64 at once", large, 131'072, 64);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
}
