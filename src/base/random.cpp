#include "base/random.h"

#include <bit>
#include <cassert>
#include <cmath>

namespace kvphase::base {

std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t derive_seed(std::uint64_t seed, std::string_view name,
                          std::initializer_list<std::uint64_t> indices) {
  std::uint64_t hash = mix64(seed);
  for (const char c : name) hash = mix64(hash ^ static_cast<unsigned char>(c));
  hash = mix64(hash ^ 0xffU);  // closes the name, so that ("a", {98}) differs from ("ab", {})
  for (const std::uint64_t index : indices) hash = mix64(hash ^ index);
  return hash;
}

Random::Random(std::uint64_t seed) : state_{} {
  for (auto& word : state_) {
    word = mix64(seed);
    seed += 0x9e3779b97f4a7c15ULL;
  }
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::uniform_index(std::uint64_t bound) {
  assert(bound > 0);
  // Lemire's method: multiply, and reject the few products that would favour small indices.
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const Wide product = static_cast<Wide>(next()) * bound;
    if (static_cast<std::uint64_t>(product) >= threshold) {
      return static_cast<std::uint64_t>(product >> 64);
    }
  }
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double Random::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  double u = 0;
  double v = 0;
  double s = 0;
  do {
    u = 2 * uniform() - 1;
    v = 2 * uniform() - 1;
    s = u * u + v * v;
  } while (s >= 1 || s == 0);
  const double scale = std::sqrt(-2 * std::log(s) / s);
  spare_ = v * scale;
  has_spare_ = true;
  return u * scale;
}

std::vector<std::size_t> Random::sample_without_replacement(std::size_t size, std::size_t count) {
  assert(count <= size);
  std::vector<std::size_t> pool(size);
  std::iota(pool.begin(), pool.end(), std::size_t{0});
  for (std::size_t i = 0; i < count; ++i) std::swap(pool[i], pool[i + uniform_index(size - i)]);
  pool.resize(count);
  return pool;
}

void Random::set_state(const std::array<std::uint64_t, 4>& state) {
  state_ = state;
  has_spare_ = false;
}

}  // namespace kvphase::base
