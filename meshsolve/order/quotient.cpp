// Parts of a quotient graph: induced graphs and connected components. Cost: O(vertices + edges).
#include "quotient.hpp"

namespace ms::order {

std::vector<Quotient> parts(const Quotient& q, const std::vector<int32_t>& label, int32_t labels,
                            const std::vector<std::pair<int32_t, int32_t>>& more) {
  std::vector<Quotient> out(labels);
  std::vector<int32_t> renumbered(q.n()), slot(q.n(), -1), first_more(q.n(), -1), next_more(2 * more.size());
  for (int32_t i = 0; i < q.n(); ++i) {
    if (q.vertex_weight[i] == 0) continue;
    Quotient& part = out[label[i]];
    renumbered[i] = part.n();
    part.patch.push_back(q.patch[i]);
    part.vertex_weight.push_back(q.vertex_weight[i]);
  }
  for (int32_t k = 0; k < static_cast<int32_t>(next_more.size()); ++k) {
    const int32_t i = k & 1 ? more[k / 2].second : more[k / 2].first;
    next_more[k] = first_more[i];
    first_more[i] = k;
  }
  for (Quotient& part : out) part.ptr.push_back(0);
  for (int32_t i = 0; i < q.n(); ++i) {
    if (q.vertex_weight[i] == 0) continue;
    Quotient& part = out[label[i]];
    const int32_t row = part.ptr.back();
    for (int32_t p = q.ptr[i]; p < q.ptr[i + 1]; ++p) {
      const int32_t j = q.adj[p];
      if (label[j] != label[i] || q.vertex_weight[j] == 0) continue;
      slot[j] = static_cast<int32_t>(part.adj.size());
      part.adj.push_back(renumbered[j]);
      part.edge_weight.push_back(q.edge_weight[p]);
    }
    for (int32_t k = first_more[i]; k >= 0; k = next_more[k]) {
      const int32_t j = k & 1 ? more[k / 2].first : more[k / 2].second;
      if (slot[j] >= row && slot[j] < static_cast<int32_t>(part.adj.size()) && part.adj[slot[j]] == renumbered[j]) {
        ++part.edge_weight[slot[j]];
      } else {
        slot[j] = static_cast<int32_t>(part.adj.size());
        part.adj.push_back(renumbered[j]);
        part.edge_weight.push_back(1);
      }
    }
    part.ptr.push_back(static_cast<int32_t>(part.adj.size()));
  }
  return out;
}

std::vector<int64_t> components(const Quotient& q, std::vector<int32_t>& label) {
  std::vector<int64_t> weight;
  std::vector<int32_t> queue;
  label.assign(q.n(), -1);
  for (int32_t s = 0; s < q.n(); ++s) {
    if (label[s] >= 0) continue;
    const int32_t c = static_cast<int32_t>(weight.size());
    weight.push_back(0);
    label[s] = c;
    queue.assign(1, s);
    for (size_t head = 0; head < queue.size(); ++head) {
      const int32_t i = queue[head];
      weight[c] += q.vertex_weight[i];
      for (int32_t p = q.ptr[i]; p < q.ptr[i + 1]; ++p)
        if (label[q.adj[p]] < 0) label[q.adj[p]] = c, queue.push_back(q.adj[p]);
    }
  }
  return weight;
}

}  // namespace ms::order
