// Multilevel edge bisection of a small weighted graph. See coarsen.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "native/rng.hpp"
#include "subpatch.hpp"

namespace ms::order {

// Priority queue of vertices by gain, largest first: doubly linked lists over clipped gains.
class GainBuckets {
 public:
  void reset(int32_t n, int32_t largest_gain);
  bool has(int32_t v) const { return at_[v] >= 0; }
  void insert(int32_t v, int32_t gain);
  void remove(int32_t v);
  void move(int32_t v, int32_t gain);
  int32_t top();                        // -1 when empty

 private:
  int32_t slot(int32_t gain) const;
  std::vector<int32_t> head_, next_, prev_, at_;
  int32_t range_ = 0, top_ = -1;
};

class Bisector {
 public:
  // Computes side[v] in {0, 1} for every vertex of q. The larger side has at most the share (1 + balance) / 2 of the weight if
  // that is possible. Returns the weight of the cut edges.
  int64_t bisect(const Quotient& q, double balance, Stream random, std::vector<uint8_t>& side);

 private:
  struct Graph {                        // view of the rows of one level
    int32_t n;
    const int32_t *ptr, *adj, *edge_weight, *vertex_weight;
  };
  struct Level {
    std::vector<int32_t> ptr, adj, edge_weight, vertex_weight;
    std::vector<int32_t> coarse;        // vertex of this level that contains each vertex of the finer level
    Graph view() const;
  };
  struct State { int64_t cut, larger; };      // weights of the cut edges and of the larger side
  bool beats(const State& a, const State& b) const;
  bool coarsen(const Graph& fine, int64_t heaviest, Stream& random, Level& coarse);
  int32_t match(const Graph& fine, int64_t heaviest, Stream& random, std::vector<int32_t>& coarse);
  int64_t grow(const Graph& g, Stream& random);
  int64_t best_start(const Graph& g, Stream& random);
  int64_t refine(const Graph& g, int passes, int64_t cut);
  int64_t improve(const Graph& g, int64_t cut, bool& better);
  void find_gains(const Graph& g);
  int32_t next_move(const Graph& g);
  void project(const Level& coarse, int32_t n);

  std::vector<Level> levels_;
  std::vector<int32_t> order_, mate_, slot_, gain_, moves_;
  std::vector<uint8_t> side_, best_, locked_;
  GainBuckets queue_[2];
  int64_t total_ = 0, limit_ = 0, weight_[2] = {0, 0};
};

}  // namespace ms::order
