// The factor of A + C C^T or A - C C^T from the factor of A, for C with few columns. Only the fronts on the paths from the rows
// of C to the roots change, by one rotation for each of their columns and each column of C. Sources: Gill, Golub, Murray and
// Saunders 1974, method C1; Davis and Hager 1999 (paths in the tree), 2001 (many columns at once). Stable downdates: Bojanczyk,
// Brent, van Dooren and de Hoog 1987 (mixed form). O(entries of L in these columns) time for each column of C. The pattern does
// not change: C C^T must lie in the analyzed pattern.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cholesky.hpp"
#include "native/threads/interrupt.hpp"

namespace ms::cholesky {

struct PermutedColumns {                       // in the permuted numbering, ascending
  std::vector<int64_t> ptr;
  std::vector<std::pair<int32_t, double>> entry;
  int64_t count() const { return static_cast<int64_t>(ptr.size()) - 1; }
  auto begin(int64_t q) const { return entry.begin() + ptr[q]; }
  auto end(int64_t q) const { return entry.begin() + ptr[q + 1]; }
};

namespace {

using fronts::AssemblyTree;
using Columns = PermutedColumns;

template <class T>
constexpr double smallest_left = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());      // of the determinant

constexpr double many_products = 4e6;        // products; to add them takes longer than to copy the values

int32_t front_of(const AssemblyTree& tree, int32_t column) {
  const auto& first = tree.supernodes().first;
  return static_cast<int32_t>(std::upper_bound(first.begin(), first.end(), column) - first.begin()) - 1;
}

Columns permuted(const AssemblyTree& tree, const SparseColumns& C) {
  Columns out{{C.ptr, C.ptr + C.count + 1}, {}};
  out.entry.reserve(C.ptr[C.count]);
  const int32_t* const iperm = tree.symbolic->analysis.iperm.data();
  for (int64_t p = 0; p < C.ptr[C.count]; ++p) out.entry.emplace_back(iperm[C.row[p]], C.value[p]);
  for (int64_t q = 0; q < C.count; ++q) std::sort(out.entry.begin() + C.ptr[q], out.entry.begin() + C.ptr[q + 1]);
  return out;
}

// The entries of C C^T by their positions in the values of the matrix. Columns of A are not sorted by row. Each entry is looked
// up in the column of C, by bisection, or in a table if that column is long.
class Products {
 public:
  Products(const AssemblyTree& tree, const Columns& C) : tree_(tree), C_(C) {
    for (int64_t q = 0; q < C.count() && table_.empty(); ++q)
      if (is_long(q)) table_.assign(tree.n(), 0.0);
  }

  // Calls f(position, entry) for the lower half of c c^T, c column q. Returns the first pair of rows that is not in the pattern,
  // or {-1, -1}; then it neither allocates nor throws.
  template <class F>
  std::pair<int32_t, int32_t> each(int64_t q, F&& f) {
    if (is_long(q))
      for (auto e = C_.begin(q); e != C_.end(q); ++e) table_[e->first] = e->second;
    std::pair<int32_t, int32_t> missing{-1, -1};
    for (auto a = C_.begin(q); a != C_.end(q) && missing.first < 0; ++a) {
      int64_t left = C_.end(q) - a;
      each_in_column(q, a, [&](int64_t p, int32_t, double value) {
        f(p, a->second * value);
        --left;
      });
      if (left > 0) missing = {first_missing(q, a), a->first};
    }
    if (is_long(q))
      for (auto e = C_.begin(q); e != C_.end(q); ++e) table_[e->first] = 0;
    return missing;
  }

 private:
  using Entry = decltype(std::declval<const Columns&>().begin(0));

  bool is_long(int64_t q) const { return C_.end(q) - C_.begin(q) > 32; }

  // Entry of row i in column q from `a` on, or 0 (stored entries are not 0).
  double value(int64_t q, Entry a, int32_t i) const {
    if (is_long(q)) return table_[i];
    const auto b = std::lower_bound(a, C_.end(q), std::pair{i, -std::numeric_limits<double>::infinity()});
    return b != C_.end(q) && b->first == i ? b->second : 0;
  }

  // Calls visit(position, row, entry of C) for the entries of A in the column of `a` whose row column q of C has too.
  template <class Visit>
  void each_in_column(int64_t q, Entry a, Visit&& visit) const {
    const int32_t j = a->first, s = front_of(tree_, j), first = tree_.first(s);
    const int64_t w = tree_.pivots(s);
    const int32_t* const rows = tree_.rows(s);
    for (int64_t p = tree_.entry_ptr[j]; p < tree_.entry_ptr[j + 1]; ++p) {
      const int64_t r = tree_.entry_row.data()[p];
      const int32_t i = r < w ? first + static_cast<int32_t>(r) : rows[r - w];
      if (const double x = value(q, a, i); x != 0) visit(p, i, x);
    }
  }

  int32_t first_missing(int64_t q, Entry a) const {
    std::vector<int32_t> found;
    each_in_column(q, a, [&](int64_t, int32_t i, double) { found.push_back(i); });
    std::sort(found.begin(), found.end());
    for (const int32_t i : found) {
      if (a->first != i) break;
      ++a;
    }
    return a->first;
  }

  const AssemblyTree& tree_;
  const Columns& C_;
  std::vector<double> table_;                  // (n): the current long column
};

// Ascending: the fronts with a row of C, and all their ancestors.
std::vector<int32_t> ways_up(const AssemblyTree& tree, const Columns& C) {
  std::vector<int32_t> ways;
  std::vector<bool> seen(tree.count());
  for (int64_t q = 0; q < C.count(); ++q) {
    if (C.begin(q) == C.end(q)) continue;
    for (int32_t s = front_of(tree, C.begin(q)->first); s >= 0 && !seen[s]; s = tree.parent(s)) {
      seen[s] = true;
      ways.push_back(s);
    }
  }
  std::sort(ways.begin(), ways.end());
  return ways;
}

// The columns of C that have reached a front, on its rows: V has the columns `which`, `height` numbers each.
template <class T>
struct Incoming {
  int64_t height = 0;
  std::vector<int32_t> which;
  std::vector<T> V;
  T* column(int64_t k) { return V.data() + k * height; }
};

// Traverses the fronts upwards: each front gets the parts of columns below the pivots of its children, and the columns of C whose
// first row is one of its pivots. Columns meet at common ancestors; a single column follows one path.
template <class T>
class Ascent {
 public:
  Ascent(const AssemblyTree& tree, const Columns& C)
      : tree_(tree), C_(C), ways_(ways_up(tree, C)), inbox_(ways_.size()), begins_(ways_.size()) {
    for (int32_t q = 0; q < C.count(); ++q)
      if (C.begin(q) != C.end(q)) begins_[index(front_of(tree, C.begin(q)->first))].push_back(q);
  }

  // Calls visit(front, columns at the front), which returns false to stop.
  template <class Visit>
  void run(Visit&& visit) {
    for (size_t k = 0; k < ways_.size(); ++k) {
      interrupt::poll();
      Incoming<T> here = incoming(k);
      if (!visit(ways_[k], here)) return;
      const int32_t parent = tree_.parent(ways_[k]);
      if (parent >= 0) inbox_[index(parent)].emplace_back(ways_[k], std::move(here));
    }
  }

 private:
  size_t index(int32_t s) const { return std::lower_bound(ways_.begin(), ways_.end(), s) - ways_.begin(); }

  Incoming<T> incoming(size_t k) {
    const int32_t s = ways_[k];
    Incoming<T> here;
    here.height = tree_.height(s);
    for (const auto& [child, from] : inbox_[k]) here.which.insert(here.which.end(), from.which.begin(), from.which.end());
    here.which.insert(here.which.end(), begins_[k].begin(), begins_[k].end());
    here.V.assign(here.height * here.which.size(), T(0));
    int64_t at = 0;
    for (auto& [child, from] : inbox_[k])
      for (size_t c = 0; c < from.which.size(); ++c, ++at) {
        const int64_t w = tree_.pivots(child), u = tree_.updates(child);
        const int32_t* const to = tree_.relative_rows(child);
        for (int64_t i = 0; i < u; ++i) here.column(at)[to[i]] = from.column(c)[w + i];
      }
    for (const int32_t q : begins_[k]) insert(s, q, here.column(at++));
    inbox_[k].clear();
    return here;
  }

  void insert(int32_t s, int32_t q, T* v) const {
    const int32_t first = tree_.first(s);
    const int64_t w = tree_.pivots(s), u = tree_.updates(s);
    const int32_t* const rows = tree_.rows(s);
    for (auto e = C_.begin(q); e != C_.end(q); ++e) {
      const int64_t at = e->first < first + w ? e->first - first : w + (std::lower_bound(rows, rows + u, e->first) - rows);
      v[at] = static_cast<T>(e->second);
    }
  }

  const AssemblyTree& tree_;
  const Columns& C_;
  const std::vector<int32_t> ways_;
  std::vector<std::vector<std::pair<int32_t, Incoming<T>>>> inbox_;       // of each front on the paths: columns from its children
  std::vector<std::vector<int32_t>> begins_;                              // columns of C that begin at the front
};

// Applies the columns at a front to it, one by one. left[q]: remaining part of the determinant after a downdate by column q.
template <class T>
class Rotations {
 public:
  Rotations(const Columns& C, bool down) : down_(down), left_(C.count(), 1.0) {}

  // Returns the first column without a pivot, or -1. Applies few columns at a time, which stay in the cache; the bits are the
  // same.
  int64_t take_in(const PanelShape& shape, T* panel, Incoming<T>& here) {
    constexpr size_t few = 32;
    for (size_t from = 0; from < here.which.size(); from += few) {
      const int64_t bad = take_in(shape, panel, here, from, std::min(from + few, here.which.size()));
      if (bad >= 0) return bad;
    }
    return -1;
  }

 private:
  static constexpr int64_t often = 1 << 17;    // numbers rotated between two polls for Ctrl-C, about 100 us

  int64_t take_in(const PanelShape& shape, T* panel, Incoming<T>& here, size_t from, size_t to) {
    const auto apply = down_ ? dense<T>().rotate_hyperbolic : dense<T>().rotate;
    for (int64_t k = 0; k < shape.steps(); ++k) {
      const Step<T> step = shape.step(panel, k);
      for (int64_t j = step.column; j < step.column + step.width; ++j) {
        T* const x = step.column_at(j - step.column);
        if (!plan(x[j], j, here, from, to)) return j;
        const Int below = shape.height - j - 1, count = columns_.size();
        if (count > 0) apply(below, count, numbers_.data(), x + j + 1, columns_.data());
        listen(below * count);
      }
    }
    return -1;
  }

  void listen(int64_t numbers) {
    if ((since_ += numbers) < often) return;
    since_ = 0;
    interrupt::poll();
  }

  // The rotations that make row j of the columns zero, and the new pivot.
  bool plan(T& pivot, int64_t j, Incoming<T>& here, size_t from, size_t to) {
    columns_.clear();
    numbers_.clear();
    for (size_t k = from; k < to; ++k) {
      T* const v = here.column(k);
      if (v[j] == 0) continue;
      if (!(down_ ? plan_down(pivot, v[j], left_[here.which[k]]) : plan_up(pivot, v[j]))) return false;
      columns_.push_back(v + j + 1);
    }
    return true;
  }

  // Avoids squares that could underflow or overflow although the result does not.
  bool plan_up(T& pivot, T v) {
    const T root = std::hypot(pivot, v), c = pivot / root, s = v / root;
    if (!(root * root <= std::numeric_limits<T>::max())) return false;          // the matrix would overflow
    pivot = root;
    numbers_.insert(numbers_.end(), {c, s, c, -s});
    return true;
  }

  bool plan_down(T& pivot, T v, double& left) {
    const T t = v / pivot, square = (1 - t) * (1 + t);
    left *= static_cast<double>(square);
    if (!(square > 0 && left > smallest_left<T>)) return false;
    const T c = std::sqrt(square);
    pivot *= c;
    numbers_.insert(numbers_.end(), {1 / c, -t / c, c, -t});
    return true;
  }

  const bool down_;
  std::vector<double> left_;
  std::vector<T> numbers_;
  std::vector<T*> columns_;
  int64_t since_ = 0;                          // numbers rotated since the last poll
};

}  // namespace

template <class T>
int32_t Factor<T>::rotate_in(const PermutedColumns& C, bool down) {
  int32_t failed = -1;
  Rotations<T> rotations(C, down);
  Ascent<T>(*tree_, C).run([&](int32_t s, Incoming<T>& here) {
    values_.written();
    const int64_t bad = rotations.take_in(panel_shape(*tree_, s), panels_.data() + panel_ptr_[s], here);
    if (bad >= 0) failed = tree_->first(s) + static_cast<int32_t>(bad);
    return bad < 0;
  });
  return failed;
}

template <class T>
std::pair<int32_t, int32_t> Factor<T>::outside(const SparseColumns& given) const {
  const Columns C = permuted(*tree_, given);
  const int32_t* const perm = tree_->symbolic->analysis.perm.data();
  Products products(*tree_, C);
  for (int64_t q = 0; q < C.count(); ++q) {
    interrupt::poll();
    if (const auto [i, j] = products.each(q, [](int64_t, double) {}); i >= 0) return {perm[i], perm[j]};
  }
  return {-1, -1};
}

template <class T>
int32_t Factor<T>::update(const SparseColumns& given, bool down, int threads) {
  values_.require_factor();
  const Columns C = permuted(*tree_, given);
  Products products(*tree_, C);
  double count = 0;
  for (int64_t q = 0; q < C.count(); ++q) count += static_cast<double>(C.end(q) - C.begin(q)) * (C.end(q) - C.begin(q)) / 2;
  const bool takes_long = count > many_products;
  const auto add = [&](T* values) {
    for (int64_t q = 0; q < C.count(); ++q) {
      if (takes_long) interrupt::poll();
      products.each(q, [&](int64_t p, double x) { values[p] += static_cast<T>(down ? -x : x); });
    }
  };
  return values_.change([&] { return rotate_in(C, down); }, add, takes_long, [&](const T* values) { return run(values, threads); });
}

template std::pair<int32_t, int32_t> Factor<double>::outside(const SparseColumns&) const;
template std::pair<int32_t, int32_t> Factor<float>::outside(const SparseColumns&) const;
template int32_t Factor<double>::update(const SparseColumns&, bool, int);
template int32_t Factor<float>::update(const SparseColumns&, bool, int);

}  // namespace ms::cholesky
