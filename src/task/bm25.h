// BM25: how well documents match a query by the words that they share.
//
// Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
// eq. 3.15 with their usual k1 and b; the inverse document frequency has 1 added inside its
// logarithm, as Lucene does, so that a word in most documents never counts against one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvphase::task {

using Term = std::int64_t;  // a word's number; which is the caller's choice

struct Bm25Options {
  double k1 = 1.2;  // larger: repeated words count more
  double b = 0.75;  // 1: long documents are held back by their length, 0: not at all
};

// One score per document, 0 where it shares no word with the query. A word that the query repeats
// counts once.
std::vector<double> bm25_scores(std::span<const std::vector<Term>> documents,
                                std::span<const Term> query, const Bm25Options& options = {});

// A text cut into units that stand side by side: what a passage is made of.
struct Unit {
  std::vector<Term> terms;
  bool whole = false;  // a passage of its own
};

// Units begin .. end-1.
struct Passage {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The `count` best passages by BM25, best first; no two overlap. Passages are runs of `length`
// units, one starting every half of it, and one at the end of each run between whole units. Of
// equal scores the one whose matching units stand nearest to its middle, then the first. Fewer
// where the text has no more.
std::vector<Passage> best_passages(std::span<const Unit> units, std::span<const Term> query,
                                   std::int64_t count, std::int64_t length,
                                   const Bm25Options& options = {});

}  // namespace kvphase::task
