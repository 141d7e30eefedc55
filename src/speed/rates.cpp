#include "speed/rates.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/stop.h"
#include "model/threads.h"
#include "speed/machine.h"

namespace kvphase::speed {
namespace {

constexpr const char* kMm = "torch::mm";

// The fastest of several runs after one that is not counted.
double fastest(double seconds, const std::function<void()>& work) {
  work();
  const base::Stopwatch all;
  double best = 0;
  do {
    const base::Stopwatch watch;
    work();
    const double spent = watch.seconds();
    best = best == 0 ? spent : std::min(best, spent);
  } while (all.seconds() < seconds && !base::stop_requested());
  return best;
}

void try_product(Rates& rates, double products, std::int64_t n, const std::string& how,
                 double seconds, const std::function<void()>& work) {
  const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  const double flops = 2 * cube * products / fastest(seconds, work);
  if (how.starts_with(kMm)) rates.mm_flops = std::max(rates.mm_flops, flops);
  if (flops <= rates.flops) return;
  rates.flops = flops;
  rates.flops_how = how;
}

void measure_products(Rates& rates, std::int64_t threads, double seconds) {
  const torch::NoGradGuard no_grad;
  constexpr std::int64_t kSizes[] = {512, 1024, 2048};
  const double each = seconds / (3.0 * std::size(kSizes));
  for (const std::int64_t n : kSizes) {
    std::vector<torch::Tensor> a, b, c;
    for (std::int64_t i = 0; i < threads; ++i) {
      a.push_back(torch::rand({n, n}));
      b.push_back(torch::rand({n, n}));
      c.push_back(torch::empty({n, n}));
    }
    model::compute_on_threads(threads);
    try_product(rates, 1, n, fmt::format("{0} of {1} x {1}, shared by all threads", kMm, n), each,
                [&] { torch::mm_out(c[0], a[0], b[0]); });
    if (at::globalContext().userEnabledMkldnn() && at::hasMKLDNN()) {
      const torch::Tensor x = a[0].to_mkldnn(), w = b[0].to_mkldnn();
      const torch::Tensor bias = torch::zeros({n}).to_mkldnn();
      try_product(rates, 1, n, fmt::format("oneDNN of {0} x {0}, shared by all threads", n), each,
                  [&] { at::mkldnn_linear(x, w, bias); });
    }
    model::compute_on_threads(1);
    if (threads == 1) continue;
    try_product(rates, static_cast<double>(threads), n,
                fmt::format("{0} of {1} x {1}, every thread its own", kMm, n), each, [&] {
                  model::run_shards(threads, [&](std::int64_t i) {
                    const auto at = static_cast<std::size_t>(i);
                    torch::mm_out(c[at], a[at], b[at]);
                  });
                });
  }
}

// Sums words[begin, end) in lanes, so that the additions do not wait for each other.
std::uint64_t sum_words(const std::uint64_t* words, std::size_t count) {
  constexpr std::size_t kLanes = 32;
  std::uint64_t lanes[kLanes] = {};
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) lanes[k] += words[i + k];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

void triad(float* a, const float* b, const float* c, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + 3.0F * c[i];
}

void measure_memory(Rates& rates, std::int64_t threads, double seconds, std::int64_t buffer) {
  constexpr std::int64_t kLeast = 512 << 20, kCaches = 8;
  if (buffer == 0) {
    buffer = std::max(kLeast, kCaches * look_at_machine().last_level_cache.value_or(0));
  }
  const std::size_t each = static_cast<std::size_t>(buffer / threads) / 8;  // words of a thread
  std::vector<std::vector<std::uint64_t>> words(static_cast<std::size_t>(threads));
  model::run_shards(threads, [&](std::int64_t i) {  // touched first by the thread that reads them
    words[static_cast<std::size_t>(i)].assign(each, 1);
  });
  const auto bytes = static_cast<double>(each * 8 * words.size());
  std::vector<std::uint64_t> sums(words.size());
  const double reading = fastest(seconds / 2, [&] {
    model::run_shards(threads, [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      sums[at] = sum_words(words[at].data(), each);
    });
  });
  // A sum that nobody looks at need not be made.
  if (std::ranges::any_of(sums, [&](std::uint64_t sum) { return sum > each; })) return;
  rates.buffer = static_cast<std::int64_t>(bytes);
  rates.read_bytes = bytes / reading;
  const std::size_t third = each * 2 / 3;  // floats of a stream
  const double writing = fastest(seconds / 2, [&] {
    model::run_shards(threads, [&](std::int64_t i) {
      auto* floats = reinterpret_cast<float*>(words[static_cast<std::size_t>(i)].data());
      triad(floats, floats + third, floats + 2 * third, third);
    });
  });
  rates.triad_bytes = 12.0 * static_cast<double>(third * words.size()) / writing;
}

}  // namespace

Rates measure_rates(std::int64_t threads, double seconds, std::int64_t buffer) {
  Rates rates;
  measure_products(rates, threads, 0.7 * seconds);
  measure_memory(rates, threads, 0.3 * seconds, buffer);
  return rates;
}

}  // namespace kvphase::speed
