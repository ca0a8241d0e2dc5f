// Leaves of nested dissection. A leaf gets local numbers: first its own vertices, then its halo, the vertices of adjacent
// separators. It is ordered by minimum degree with this halo: as a bit matrix (mindeg_bits.cpp), or with lists if it is large
// (mindeg.cpp). Halo vertices belong to several leaves, which other threads may be ordering. So their local numbers are in a
// small hash table, not in Members. Cost: O(entries) to copy the rows, and the minimum degree.
#include "leaf.hpp"

#include <algorithm>

namespace ms::order {

const std::vector<int32_t>& LeafOrder::vertices(const Quotient& q) {
  vertices_.clear();
  for (const int32_t p : q.patch) m_.for_each(p, [&](int32_t v) { vertices_.push_back(v); });
  return vertices_;
}

const std::vector<int32_t>& LeafOrder::order(const Quotient& q) {
  if (vertices(q).size() <= 2) return vertices_;
  const int64_t entries = number_rows();
  if (vertices_.size() + halo_.size() <= BitMinDegree::most_vertices) {
    run_on_bits();
  } else if (fits_32_bits(entries, static_cast<int64_t>(vertices_.size() + halo_.size()))) {
    run(small_, entries);
  } else {
    MinDegree<int64_t> wide;
    run(wide, entries);
  }
  result_.resize(vertices_.size());
  for (size_t k = 0; k < vertices_.size(); ++k) result_[k] = vertices_[order_[k]];
  return result_;
}

// columns_ = rows of the leaf's vertices in local numbers. Returns the number of entries, including the rows of the halo.
int64_t LeafOrder::number_rows() {
  const int32_t own = static_cast<int32_t>(vertices_.size());
  for (int32_t i = 0; i < own; ++i) m_.sides.local[vertices_[i]] = i;
  columns_.clear();
  halo_.clear();
  halo_count_.clear();
  table_.assign(512, Slot{});
  int64_t halo_entries = 0;
  for (const int32_t v : vertices_)
    for (int64_t k = m_.graph.ptr[v]; k < m_.graph.ptr[v + 1]; ++k) {
      const int32_t u = m_.graph.idx[k];
      if (m_.in_patch(u)) {
        columns_.push_back(m_.sides.local[u]);
      } else {
        const int32_t h = halo_number(u);
        ++halo_count_[h];
        ++halo_entries;
        columns_.push_back(own + h);
      }
    }
  return static_cast<int64_t>(columns_.size()) + halo_entries;
}

int32_t LeafOrder::halo_number(int32_t v) {
  const size_t mask = table_.size() - 1;
  size_t at = static_cast<size_t>(static_cast<uint32_t>(v) * 2654435761u >> 8) & mask;
  while (table_[at].vertex >= 0) {
    if (table_[at].vertex == v) return table_[at].number;
    at = (at + 1) & mask;
  }
  table_[at] = {v, static_cast<int32_t>(halo_.size())};
  halo_.push_back(v);
  halo_count_.push_back(0);
  const int32_t number = table_[at].number;
  if (2 * halo_.size() > table_.size()) grow_table();
  return number;
}

void LeafOrder::grow_table() {
  std::vector<Slot> bigger(4 * table_.size());
  const size_t mask = bigger.size() - 1;
  for (const Slot& slot : table_) {
    if (slot.vertex < 0) continue;
    size_t at = static_cast<size_t>(static_cast<uint32_t>(slot.vertex) * 2654435761u >> 8) & mask;
    while (bigger[at].vertex >= 0) at = (at + 1) & mask;
    bigger[at] = slot;
  }
  table_.swap(bigger);
}

void LeafOrder::run_on_bits() {
  const int32_t own = static_cast<int32_t>(vertices_.size());
  bits_.begin(own, static_cast<int32_t>(halo_.size()));
  const int32_t* from = columns_.data();
  for (int32_t i = 0; i < own; ++i)
    for (const int32_t* end = from + m_.graph.degree(vertices_[i]); from < end; ++from) bits_.connect(i, *from);
  order_.resize(own);
  bits_.run(order_.data());
}

template <class Index>
void LeafOrder::run(MinDegree<Index>& graph, int64_t entries) {
  const int32_t own = static_cast<int32_t>(vertices_.size()), halo = static_cast<int32_t>(halo_.size());
  graph.begin(own + halo, own, entries);
  const int32_t* from = columns_.data();
  for (const int32_t v : vertices_) {
    const int32_t length = static_cast<int32_t>(m_.graph.degree(v));
    std::copy(from, from + length, graph.row(length));
    from += length;
  }
  if (halo > 0) {
    halo_rows_.clear();
    for (int32_t h = 0; h < halo; ++h) halo_rows_.push_back(graph.row(halo_count_[h]));
    from = columns_.data();
    for (int32_t i = 0; i < own; ++i)
      for (const int32_t* end = from + m_.graph.degree(vertices_[i]); from < end; ++from)
        if (*from >= own) *halo_rows_[*from - own]++ = i;
  }
  order_.resize(own);
  graph.run(order_.data(), is_bounded_ ? bounded(entries) : Limits{});
}

}  // namespace ms::order
