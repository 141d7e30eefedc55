#include "task/bm25.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace kvphase::task {

std::vector<double> bm25_scores(std::span<const std::vector<Term>> documents,
                                std::span<const Term> query, const Bm25Options& options) {
  std::vector<double> scores(documents.size());
  if (documents.empty()) return scores;
  const std::set<Term> wanted(query.begin(), query.end());
  std::map<Term, double> holding;  // documents by word
  std::vector<std::map<Term, double>> counts(documents.size());
  double words = 0;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    words += static_cast<double>(documents[d].size());
    for (const Term term : documents[d]) {
      if (wanted.contains(term) && ++counts[d][term] == 1) ++holding[term];
    }
  }
  const auto n = static_cast<double>(documents.size());
  const double average = words / n;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const double longer = average > 0 ? static_cast<double>(documents[d].size()) / average : 0;
    for (const auto& [term, count] : counts[d]) {
      const double with = holding.at(term);
      const double rarity = std::log1p((n - with + 0.5) / (with + 0.5));
      scores[d] += rarity * count * (options.k1 + 1) /
                   (count + options.k1 * (1 - options.b + options.b * longer));
    }
  }
  return scores;
}

namespace {

// All passages of a text.
std::vector<Passage> cut(std::span<const Unit> units, std::size_t length) {
  std::vector<Passage> passages;
  const std::size_t step = std::max<std::size_t>(1, length / 2);
  for (std::size_t begin = 0; begin < units.size();) {
    if (units[begin].whole) {
      passages.push_back({begin, begin + 1});
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < units.size() && !units[end].whole) ++end;
    std::size_t at = begin;
    for (; at + length < end; at += step) passages.push_back({at, at + length});
    passages.push_back({end - begin > length ? end - length : begin, end});
    begin = end;
  }
  return passages;
}

// How far the units that match stand from the passage's middle, on average.
double off_centre(std::span<const Unit> units, const Passage& passage,
                  const std::set<Term>& query) {
  const double middle = static_cast<double>(passage.begin + passage.end - 1) / 2;
  double sum = 0, hits = 0;
  for (std::size_t u = passage.begin; u < passage.end; ++u) {
    if (std::ranges::none_of(units[u].terms, [&](Term t) { return query.contains(t); })) continue;
    sum += std::abs(static_cast<double>(u) - middle);
    ++hits;
  }
  return hits > 0 ? sum / hits : 0;
}

}  // namespace

std::vector<Passage> best_passages(std::span<const Unit> units, std::span<const Term> query,
                                   std::int64_t count, std::int64_t length,
                                   const Bm25Options& options) {
  const std::vector<Passage> all = cut(units, static_cast<std::size_t>(length));
  std::vector<std::vector<Term>> documents;
  for (const Passage& passage : all) {
    std::vector<Term>& terms = documents.emplace_back();
    for (std::size_t u = passage.begin; u < passage.end; ++u) {
      terms.insert(terms.end(), units[u].terms.begin(), units[u].terms.end());
    }
  }
  const std::vector<double> scores = bm25_scores(documents, query, options);
  const std::set<Term> wanted(query.begin(), query.end());
  struct Candidate {
    double score;
    double off;
    Passage passage;
  };
  std::vector<Candidate> ranked;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ranked.push_back({scores[i], off_centre(units, all[i], wanted), all[i]});
  }
  std::ranges::stable_sort(ranked, [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.off < b.off;
  });
  std::vector<Passage> best;
  for (const Candidate& candidate : ranked) {
    if (std::ssize(best) == count) break;
    const Passage& p = candidate.passage;
    if (std::ranges::none_of(
            best, [&](const Passage& q) { return p.begin < q.end && q.begin < p.end; })) {
      best.push_back(p);
    }
  }
  return best;
}

}  // namespace kvphase::task
