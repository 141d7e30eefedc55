// Attention alone, forward and backward, beside the machine's matrix product in one run.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include <fmt/format.h>
#include "base/clock.h"
#include "kernels/attention.h"
#include "kernels/dispatch.h"

using namespace kvphase;

namespace {

double best(int repeats, const std::function<void()>& work) {
  double least = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const base::Stopwatch watch;
    work();
    least = std::min(least, watch.seconds());
  }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t T = 8192, S = 4, W = 4, G = 1, H = 4, D = 32, N = 8, B = 1, threads = 1, repeats = 3;
  bool plain = false, full = false;
  CLI::App app;
  app.add_option("-T", T);
  app.add_option("-S", S);
  app.add_option("-W", W);
  app.add_option("-G", G);
  app.add_option("-H", H);
  app.add_option("-D", D);
  app.add_option("-N", N);
  app.add_option("-B", B);
  app.add_option("--threads", threads);
  app.add_option("--repeats", repeats);
  bool decode = false;
  app.add_flag("--decode", decode);
  app.add_flag("--plain", plain);
  app.add_flag("--full", full);
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(static_cast<int>(threads));
  double rate = 0;
  {
    const auto a = torch::randn({1024, 1024}), b = torch::randn({1024, 1024});
    rate = 2.0 * 1024 * 1024 * 1024 / best(10, [&] { torch::mm(a, b); });
  }
  if (decode) {
    torch::NoGradGuard no;
    kernels::Attention a;
    a.queries = torch::randn({B, 1, H, D});
    a.keys = torch::randn({B, G, T, D}).transpose(1, 2);
    a.values = torch::randn({B, G, T, D}).transpose(1, 2);
    a.rows = torch::full({B, 1}, T - 1, torch::kLong);
    const auto big = torch::randn({64 << 20});
    const double band = static_cast<double>(big.nbytes()) / best(5, [&] { big.sum(); });
    const double s = best(static_cast<int>(repeats), [&] { kernels::attend(a); });
    const double bytes = static_cast<double>(a.keys.nbytes() * 2);
    fmt::print("sum {:.1f} GB/s; decode {:.3f} ms, {:.1f} GB/s\n", band / 1e9, s * 1e3,
               bytes / s / 1e9);
    return 0;
  }
  const auto o = torch::TensorOptions().requires_grad(true);
  kernels::Attention a;
  a.queries = torch::randn({B, T, H, D}, o);
  a.keys = torch::randn({B, T, G, D}, o);
  a.values = torch::randn({B, T, G, D}, o);
  a.rows = torch::arange(T).expand({B, T});
  double pairs = 0;
  if (full) {
    pairs = static_cast<double>(T) * static_cast<double>(T + 1) / 2;
  } else {
    a.grid =
        kernels::make_chunk_grid(W, S, std::vector<std::int64_t>(static_cast<std::size_t>(G), 0));
    a.recent.window = N;
    const std::int64_t M = a.grid.completed(T);
    a.entry_keys = torch::randn({B, M, G, D}, o);
    a.entry_values = torch::randn({B, M, G, D}, o);
    for (std::int64_t t = 0; t < T; ++t)
      pairs += static_cast<double>(std::min(N, t + 1) + a.grid.completed(t + 1));
  }
  pairs *= static_cast<double>(B * H);
  const auto direction = torch::randn({B, T, H, D});
  std::optional<kernels::PlainKernels> hold;
  if (plain) hold.emplace();
  torch::Tensor out;
  double forward = 1e30, backward = 1e30;
  for (int i = 0; i < repeats; ++i) {
    forward = std::min(forward, best(1, [&] { out = kernels::attend(a); }));
    backward = std::min(backward, best(1, [&] { out.backward(direction); }));
  }
  const double unit = pairs * static_cast<double>(D);
  fmt::print(
      "gemm {:.1f} GFLOP/s; forward {:.1f} ms = {:.0f}%, backward {:.1f} ms = {:.0f}% (8D), "
      "{:.0f}% (10D), both {:.0f}% (12D) {:.0f}% (14D)\n",
      rate / 1e9, forward * 1e3, 100 * 4 * unit / forward / rate, backward * 1e3,
      100 * 8 * unit / backward / rate, 100 * 10 * unit / backward / rate,
      100 * 12 * unit / (forward + backward) / rate, 100 * 14 * unit / (forward + backward) / rate);
}
