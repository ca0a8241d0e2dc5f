// The assembly tree: row indices of children in their parents, positions of the entries of A in the fronts.
#include <algorithm>
#include <stdexcept>

#include "fronts.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"

namespace ms::fronts {

namespace {

void link_children(AssemblyTree& t) {
  const std::vector<int32_t>& parent = t.supernodes().parent;
  const int32_t count = static_cast<int32_t>(parent.size());
  t.child_ptr.assign(count + 1, 0);
  for (const int32_t p : parent)
    if (p >= 0) ++t.child_ptr[p + 1];
  std::vector<int32_t> next = cumsum_with_cursors(t.child_ptr);
  t.child.resize(t.child_ptr[count]);
  for (int32_t s = 0; s < count; ++s)
    if (parent[s] >= 0) t.child[next[parent[s]]++] = s;
}

// local[row] = local row in front s, for each row of s.
void number_rows(const AssemblyTree& t, int32_t s, std::vector<int32_t>& local) {
  const int32_t begin = t.first(s), end = t.supernodes().first[s + 1];
  for (int32_t j = begin; j < end; ++j) local[j] = j - begin;
  const int32_t* const rows = t.rows(s);
  for (int64_t i = 0; i < t.updates(s); ++i) local[rows[i]] = static_cast<int32_t>(i) + end - begin;
}

// Local rows in front s of the rows of its children.
void place_children(AssemblyTree& t, int32_t s, const std::vector<int32_t>& local) {
  for (int32_t q = t.child_ptr[s]; q < t.child_ptr[s + 1]; ++q) {
    const int32_t c = t.child[q];
    const int32_t* const rows = t.rows(c);
    int32_t* const out = t.relative.data() + t.supernodes().row_ptr[c];
    for (int64_t i = 0; i < t.updates(c); ++i) out[i] = local[rows[i]];
  }
}

int64_t count_entries(const AssemblyTree& t, const Pattern& A, int32_t begin, int32_t end) {
  const symbolic::Analysis& a = t.symbolic->analysis;
  int64_t found = 0;
  for (int32_t j = t.first(begin); j < t.supernodes().first[end]; ++j) {
    fetch_row(A, a.perm, j, A.n);
    for (int64_t p = A.ptr[a.perm[j]]; p < A.ptr[a.perm[j] + 1]; ++p) found += a.iperm[A.idx[p]] >= j;
  }
  return found;
}

// Stores the entries of A in the columns of front s, from position `at` on and before `end`; returns the position of the next
// front. Half of the entries qualify, in an order that cannot be predicted, so the loop has no branch.
int64_t place_entries(AssemblyTree& t, const Pattern& A, int32_t s, int64_t at, int64_t end, const std::vector<int32_t>& local) {
  const symbolic::Analysis& a = t.symbolic->analysis;
  for (int32_t j = t.first(s); j < t.supernodes().first[s + 1]; ++j) {
    fetch_row(A, a.perm, j, A.n);
    for (int64_t p = A.ptr[a.perm[j]]; p < A.ptr[a.perm[j] + 1] && at < end; ++p) {
      const int32_t i = a.iperm[A.idx[p]];
      t.entry_source.data()[at] = static_cast<uint32_t>(p);
      t.entry_row.data()[at] = local[i];
      at += i >= j;
    }
    t.entry_ptr[j + 1] = static_cast<uint32_t>(at);
  }
  return at;
}

// The fronts are split into pieces; with more than one piece, the start of each must be counted first.
void place_all(AssemblyTree& t, const Pattern& A, int threads) {
  const int64_t count = t.count(), grain = threads > 1 ? 2048 : count, pieces = (count + grain - 1) / grain;
  const auto first = [&](int64_t k) { return static_cast<int32_t>(std::min(count, k * grain)); };      // first front of piece k
  std::vector<int64_t> start(pieces + 1);
  if (pieces > 1)
    for_range(threads, pieces, 1, [&](int64_t b, int64_t e, int) {
      for (int64_t k = b; k < e; ++k) start[k + 1] = count_entries(t, A, first(k), first(k + 1));
    });
  const int64_t most = (A.nnz() + A.n) / 2;               // every off-diagonal entry is stored twice
  for (int64_t k = 0; k < pieces; ++k) start[k + 1] += start[k];
  if (pieces == 1) start[1] = most;
  t.entry_ptr.assign(A.n + 1, 0);
  t.entry_source = Buffer<uint32_t>(most, threads);
  t.entry_row = Buffer<int32_t>(most, threads);
  t.relative.resize(t.supernodes().rows.size());
  std::vector<std::vector<int32_t>> local(threads);
  for_range(threads, pieces, 1, [&](int64_t b, int64_t e, int worker) {
    local[worker].resize(A.n);
    for (int64_t k = b; k < e; ++k) {
      int64_t at = start[k];
      for (int32_t s = first(k); s < first(k + 1); ++s) {
        number_rows(t, s, local[worker]);
        place_children(t, s, local[worker]);
        at = place_entries(t, A, s, at, start[k + 1], local[worker]);
      }
    }
  });
}

// A subtree with at most a 16th of all columns is small, for any number of threads. A solve adds to rows of a small subtree
// directly, in the order of its fronts: the order of additions must not depend on the tasks.
void find_small_subtrees(AssemblyTree& t, int threads) {
  const int32_t small = std::max(1024, t.n() / 16);
  std::vector<int32_t> begin(t.count()), end(t.count());       // columns of the subtree of a front, then of its small subtree
  for (int32_t s = 0; s < t.count(); ++s) begin[s] = t.first(s);
  for (int32_t s = 0; s < t.count(); ++s)
    if (const int32_t p = t.parent(s); p >= 0) begin[p] = std::min(begin[p], begin[s]);
  t.direct.resize(t.count());
  for (int32_t s = t.count(); s-- > 0;) {
    const int32_t p = t.parent(s), own_end = t.supernodes().first[s + 1];
    end[s] = p >= 0 && t.direct[p] >= 0 ? end[p] : own_end;
    t.direct[s] = own_end - begin[s] <= small ? 0 : -1;
  }
  for_range(threads, t.count(), 2048, [&](int64_t b, int64_t e, int) {
    for (int32_t s = static_cast<int32_t>(b); s < e; ++s) {
      const int32_t* const rows = t.rows(s);
      int64_t inside = t.direct[s] < 0 ? 0 : t.updates(s);
      while (inside > 0 && rows[inside - 1] >= end[s]) --inside;
      if (t.direct[s] == 0) t.direct[s] = static_cast<int32_t>(inside);
    }
  });
}

}  // namespace

AssemblyTree assembly_tree(std::shared_ptr<const symbolic::Symbolic> symbolic, const Pattern& A, int threads) {
  if (A.nnz() > INT64_C(0xFFFFFFFF)) throw std::length_error("the matrix has more than 2^32 - 1 entries");
  AssemblyTree t;
  t.symbolic = std::move(symbolic);
  t.schedules = std::make_shared<KeptSchedules>();
  link_children(t);
  place_all(t, A, threads);
  find_small_subtrees(t, threads);
  return t;
}

// A stored entry (u, v) of the tree has a row v that is eliminated later. Its mirror entry in row v is not stored; the mirror
// entries get the remaining positions of row v, in ascending order because the rows u ascend.
std::vector<int32_t> analyzed_indices(const AssemblyTree& tree, const int64_t* ptr) {
  const symbolic::Analysis& a = tree.symbolic->analysis;
  const uint32_t* const begin = tree.entry_ptr.data();
  const uint32_t* const source = tree.entry_source.data();
  std::vector<int32_t> idx(ptr[tree.n()], -1);
  for (int32_t s = 0; s < tree.count(); ++s) {
    const int32_t first = tree.first(s), pivots = static_cast<int32_t>(tree.pivots(s));
    for (int64_t k = begin[first]; k < begin[first + pivots]; ++k) {
      const int32_t row = tree.entry_row.data()[k];
      idx[source[k]] = a.perm[row < pivots ? first + row : tree.rows(s)[row - pivots]];
    }
  }
  std::vector<int64_t> next(ptr, ptr + tree.n());         // first free position of the row
  for (int32_t u = 0; u < tree.n(); ++u)
    for (int64_t k = begin[a.iperm[u]]; k < begin[a.iperm[u] + 1]; ++k) {
      const int32_t v = idx[source[k]];
      if (v == u) continue;
      while (idx[next[v]] >= 0) ++next[v];
      idx[next[v]++] = u;
    }
  return idx;
}

AssemblyTree assembly_frame(std::shared_ptr<const symbolic::Symbolic> symbolic) {
  AssemblyTree t;
  t.symbolic = std::move(symbolic);
  t.schedules = std::make_shared<KeptSchedules>();
  link_children(t);
  t.entry_ptr.assign(1, 0);
  t.relative.resize(t.supernodes().rows.size());
  std::vector<int32_t> local(t.n());
  for (int32_t s = 0; s < t.count(); ++s) {
    number_rows(t, s, local);
    place_children(t, s, local);
  }
  find_small_subtrees(t, 1);
  return t;
}

int64_t AssemblyTree::nbytes() const {
  const auto bytes = [](const auto&... arrays) { return static_cast<int64_t>((... + (arrays.size() * sizeof(*arrays.data())))); };
  const symbolic::Analysis& a = symbolic->analysis;
  const symbolic::Supernodes& s = supernodes();
  return bytes(child_ptr, child, relative, entry_ptr, direct) + bytes(entry_source, entry_row) +
         bytes(a.perm, a.iperm, a.parent, a.colcount, s.first, s.parent, s.row_ptr, s.rows);
}

}  // namespace ms::fronts
