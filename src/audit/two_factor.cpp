#include "audit/two_factor.h"

namespace kvphase::audit {

std::vector<record::Observation> by_end(std::span<const record::Observation> observations,
                                        std::int64_t modulus) {
  std::vector<record::Observation> moved(observations.begin(), observations.end());
  for (record::Observation& o : moved) {
    o.target_position = o.query_position;
    o.residue = (o.query_position % modulus + modulus) % modulus;
  }
  return moved;
}

}  // namespace kvphase::audit
