// The assembly tree: panels, positions of children in their parents, positions of the entries of A in the panels.
#include <stdexcept>

#include "fronts.hpp"
#include "native/parallel.hpp"

namespace ms::fronts {
namespace {

// An odd multiple of 8 keeps the columns of a large panel from falling onto the same cache sets.
int64_t leading_dimension(int64_t height) {
  if (height < 64) return height;
  const int64_t rounded = (height + 7) / 8 * 8;
  return rounded % 64 ? rounded : rounded + 8;
}

void link_children(AssemblyTree& t) {
  const std::vector<int32_t>& parent = t.supernodes().parent;
  const int32_t count = static_cast<int32_t>(parent.size());
  t.child_ptr.assign(count + 1, 0);
  for (const int32_t p : parent)
    if (p >= 0) ++t.child_ptr[p + 1];
  for (int32_t s = 0; s < count; ++s) t.child_ptr[s + 1] += t.child_ptr[s];
  t.child.resize(t.child_ptr[count]);
  std::vector<int32_t> next(t.child_ptr.begin(), t.child_ptr.end() - 1);
  for (int32_t s = 0; s < count; ++s)
    if (parent[s] >= 0) t.child[next[parent[s]]++] = s;
}

void lay_out_panels(AssemblyTree& t) {
  const int32_t count = static_cast<int32_t>(t.supernodes().parent.size());
  t.panel_ptr.assign(count + 1, 0);
  for (int32_t s = 0; s < count; ++s) t.panel_ptr[s + 1] = t.panel_ptr[s] + t.pivots(s) * leading_dimension(t.height(s));
}

// A child's rows are a subset of its parent's, both ascending: one walk along the parent's list finds them.
void place_child(AssemblyTree& t, int32_t c) {
  const int32_t p = t.parent(c), begin = t.first(p), end = t.supernodes().first[p + 1];
  const int32_t* const row = t.rows(c);
  const int32_t* const above = t.rows(p);
  int32_t* const out = t.relative.data() + t.supernodes().row_ptr[c];
  const int64_t count = t.updates(c);
  int64_t i = 0, q = 0;
  for (; i < count && row[i] < end; ++i) out[i] = row[i] - begin;
  for (; i < count; ++i) {
    while (above[q] < row[i]) ++q;
    out[i] = static_cast<int32_t>(q) + end - begin;
  }
}

// Counts or writes the entries of A that fall into the columns [begin, end) of L. `local` maps a new row to its local row.
template <class Emit>
void visit_entries(const AssemblyTree& t, const Pattern& A, int32_t j, Emit emit) {
  const symbolic::Analysis& a = t.symbolic->analysis;
  const int32_t old = a.perm[j];
  for (int64_t p = A.ptr[old]; p < A.ptr[old + 1]; ++p) {
    const int32_t i = a.iperm[A.idx[p]];
    if (i >= j) emit(i, p);
  }
}

void place_entries(AssemblyTree& t, const Pattern& A, int32_t s, std::vector<int32_t>& local) {
  const int32_t begin = t.first(s), end = t.supernodes().first[s + 1];
  for (int32_t j = begin; j < end; ++j) local[j] = j - begin;
  const int32_t* const rows = t.rows(s);
  for (int64_t i = 0; i < t.updates(s); ++i) local[rows[i]] = static_cast<int32_t>(i) + end - begin;
  for (int32_t j = begin; j < end; ++j) {
    int64_t at = t.entry_ptr[j];
    visit_entries(t, A, j, [&](int32_t i, int64_t p) {
      t.entry_source[at] = static_cast<uint32_t>(p);
      t.entry_row[at++] = local[i];
    });
  }
}

}  // namespace

AssemblyTree assembly_tree(std::shared_ptr<const symbolic::Bound> symbolic, const Pattern& A, int threads) {
  if (A.nnz() > INT64_C(0xFFFFFFFF)) throw std::length_error("the matrix has more than 2^32 - 1 entries");
  AssemblyTree t;
  t.symbolic = std::move(symbolic);
  link_children(t);
  lay_out_panels(t);
  t.relative.resize(t.supernodes().rows.size());
  t.entry_ptr.assign(A.n + 1, 0);
  constexpr int64_t grain = 4096;
  for_range(threads, A.n, grain, [&](int64_t b, int64_t e, int) {
    for (int64_t j = b; j < e; ++j) {
      int64_t found = 0;
      visit_entries(t, A, static_cast<int32_t>(j), [&](int32_t, int64_t) { ++found; });
      t.entry_ptr[j + 1] = found;
    }
  });
  for (int32_t j = 0; j < A.n; ++j) t.entry_ptr[j + 1] += t.entry_ptr[j];
  t.entry_source.resize(t.entry_ptr[A.n]);
  t.entry_row.resize(t.entry_ptr[A.n]);
  std::vector<std::vector<int32_t>> local(threads);
  for_range(threads, t.count(), grain, [&](int64_t b, int64_t e, int worker) {
    local[worker].resize(A.n);
    for (int64_t s = b; s < e; ++s) {
      if (t.parent(static_cast<int32_t>(s)) >= 0) place_child(t, static_cast<int32_t>(s));
      place_entries(t, A, static_cast<int32_t>(s), local[worker]);
    }
  });
  return t;
}

void find_runs(const int32_t* relative, int64_t count, std::vector<int>& runs) {
  runs.clear();
  int64_t breaks = 1;
  for (int64_t i = 1; i < count; ++i) breaks += relative[i] != relative[i - 1] + 1;
  if (count < short_run * breaks) return;
  for (int64_t i = 0; i < count; ++i)
    if (i == 0 || relative[i] != relative[i - 1] + 1) runs.push_back(static_cast<int>(i));
  runs.push_back(static_cast<int>(count));
}

}  // namespace ms::fronts
