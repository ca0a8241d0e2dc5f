// The factor of A + C C^T or A - C C^T from that of A, for a C of few columns: only the fronts on the ways from the rows of C to the
// roots change, by one rotation for each of their columns and each column of C.
// Sources: Gill, Golub, Murray and Saunders 1974, method C1; Davis and Hager 1999 (paths in the tree), 2001 (many columns at once).
// O(entries of L in these columns) time for each column of C. No pattern changes: C C^T has to lie in the analysed one.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cholesky.hpp"
#include "native/interrupt.hpp"

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
constexpr double smallest_left = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());      // of 1, by a downdate

int32_t front_of(const AssemblyTree& tree, int32_t column) {
  const auto& first = tree.supernodes().first;
  return static_cast<int32_t>(std::upper_bound(first.begin(), first.end(), column) - first.begin()) - 1;
}

Columns permuted(const AssemblyTree& tree, const SparseColumns& C) {
  Columns out{{C.ptr, C.ptr + C.count + 1}, {}};
  const int32_t* const iperm = tree.symbolic->analysis.iperm.data();
  for (int64_t p = 0; p < C.ptr[C.count]; ++p) out.entry.emplace_back(iperm[C.row[p]], C.value[p]);
  for (int64_t q = 0; q < C.count; ++q) std::sort(out.entry.begin() + C.ptr[q], out.entry.begin() + C.ptr[q + 1]);
  return out;
}

// f(position in the values of the matrix, entry of C C^T) for the lower half of one column's square. Returns the first pair of rows that
// the pattern lacks, or {-1, -1}.
template <class F>
std::pair<int32_t, int32_t> each_product(const AssemblyTree& tree, const Columns& C, int64_t q, F&& f) {
  for (auto a = C.begin(q); a != C.end(q); ++a) {
    const int32_t j = a->first, s = front_of(tree, j);
    const int64_t w = tree.pivots(s);
    std::vector<int32_t> found;
    for (int64_t p = tree.entry_ptr[j]; p < tree.entry_ptr[j + 1]; ++p) {
      const int64_t r = tree.entry_row.data()[p];
      const int32_t i = r < w ? tree.first(s) + static_cast<int32_t>(r) : tree.rows(s)[r - w];
      const auto b = std::lower_bound(a, C.end(q), std::pair{i, -std::numeric_limits<double>::infinity()});
      if (b == C.end(q) || b->first != i) continue;
      found.push_back(i);
      f(p, a->second * b->second);
    }
    if (static_cast<int64_t>(found.size()) == C.end(q) - a) continue;
    for (auto b = a; b != C.end(q); ++b)
      if (std::find(found.begin(), found.end(), b->first) == found.end()) return {b->first, j};
  }
  return {-1, -1};
}

// Ascending: the fronts that hold a row of C, and all above them.
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

// The columns of C that have come to a front, on its rows: V holds `which` of them, `height` numbers each.
template <class T>
struct Arrived {
  int64_t height = 0;
  std::vector<int32_t> which;
  std::vector<T> V;
  T* column(int64_t k) { return V.data() + k * height; }
};

// Goes up: each front takes what its children leave below their pivots, and the columns of C whose first row is a pivot of its own.
// Columns meet on the way; that of one is never more than a path.
template <class T>
class Ascent {
 public:
  Ascent(const AssemblyTree& tree, const Columns& C) : tree_(tree), C_(C), ways_(ways_up(tree, C)), inbox_(ways_.size()), begins_(ways_.size()) {
    for (int32_t q = 0; q < C.count(); ++q)
      if (C.begin(q) != C.end(q)) begins_[index(front_of(tree, C.begin(q)->first))].push_back(q);
  }

  // visit(front, what has arrived there) returns false to end it.
  template <class Visit>
  void run(Visit&& visit) {
    for (size_t k = 0; k < ways_.size(); ++k) {
      interrupt::poll();
      Arrived<T> here = arrived(k);
      if (!visit(ways_[k], here)) return;
      const int32_t parent = tree_.parent(ways_[k]);
      if (parent >= 0) inbox_[index(parent)].emplace_back(ways_[k], std::move(here));
    }
  }

 private:
  size_t index(int32_t s) const { return std::lower_bound(ways_.begin(), ways_.end(), s) - ways_.begin(); }

  Arrived<T> arrived(size_t k) {
    const int32_t s = ways_[k];
    Arrived<T> here;
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
    for (const int32_t q : begins_[k]) place(s, q, here.column(at++));
    inbox_[k].clear();
    return here;
  }

  void place(int32_t s, int32_t q, T* v) const {
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
  std::vector<std::vector<std::pair<int32_t, Arrived<T>>>> inbox_;       // from its children, of each front on the way
  std::vector<std::vector<int32_t>> begins_;                              // columns of C
};

// Takes what has arrived into a front, column by column. left[q]: the determinant that column q of C leaves, over that before.
template <class T>
class Rotations {
 public:
  Rotations(const Columns& C, T sign) : sign_(sign), left_(C.count(), 1.0) {}

  // The first column without a pivot, or -1.
  int64_t take_in(const PanelShape& shape, T* panel, Arrived<T>& here) {
    for (int64_t k = 0; k < shape.steps(); ++k) {
      const Step<T> step = shape.step(panel, k);
      for (int64_t j = step.column; j < step.column + step.width; ++j) {
        T* const x = step.column_at(j - step.column);
        if (!plan(x[j], j, here)) return j;
        if (!columns_.empty())
          dense<T>().rotate(shape.height - j - 1, columns_.size(), numbers_.data(), x + j + 1, columns_.data());
      }
    }
    return -1;
  }

 private:
  // The rotations that make row j of what has arrived zero, and the new pivot.
  bool plan(T& pivot, int64_t j, Arrived<T>& here) {
    columns_.clear();
    numbers_.clear();
    for (size_t k = 0; k < here.which.size(); ++k) {
      T* const v = here.column(k);
      if (v[j] == 0) continue;
      const T square = pivot * pivot + sign_ * (v[j] * v[j]);
      if (!(square > 0 && square - square == 0)) return false;
      const T root = std::sqrt(square), c = root / pivot, s = v[j] / pivot;
      double& left = left_[here.which[k]];
      left *= static_cast<double>(c) * static_cast<double>(c);
      if (!(left > smallest_left<T>)) return false;
      pivot = root;
      numbers_.insert(numbers_.end(), {1 / c, sign_ * s / c, c, -s});
      columns_.push_back(v + j + 1);
    }
    return true;
  }

  const T sign_;
  std::vector<double> left_;
  std::vector<T> numbers_;
  std::vector<T*> columns_;
};

}  // namespace

template <class T>
int32_t Factor<T>::rotate_in(const PermutedColumns& C, T sign) {
  int32_t failed = -1;
  values_.written();
  Rotations<T> rotations(C, sign);
  Ascent<T>(*tree_, C).run([&](int32_t s, Arrived<T>& here) {
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
  for (int64_t q = 0; q < C.count(); ++q)
    if (const auto [i, j] = each_product(*tree_, C, q, [](int64_t, double) {}); i >= 0) return {perm[i], perm[j]};
  return {-1, -1};
}

template <class T>
int32_t Factor<T>::update(const SparseColumns& given, bool down, int threads) {
  values_.require_factor();
  const Columns C = permuted(*tree_, given);
  const T sign = down ? -1 : 1;
  std::vector<std::pair<int64_t, T>> products;                       // before anything changes: memory may run out
  for (int64_t q = 0; q < C.count(); ++q)
    each_product(*tree_, C, q, [&](int64_t p, double x) { products.emplace_back(p, sign * static_cast<T>(x)); });
  const auto add = [&](T* values) {
    for (const auto& [p, x] : products) values[p] += x;
  };
  return values_.change([&] { return rotate_in(C, sign); }, add, [&](const T* values) { return run(values, threads); });
}

template std::pair<int32_t, int32_t> Factor<double>::outside(const SparseColumns&) const;
template std::pair<int32_t, int32_t> Factor<float>::outside(const SparseColumns&) const;
template int32_t Factor<double>::update(const SparseColumns&, bool, int);
template int32_t Factor<float>::update(const SparseColumns&, bool, int);

}  // namespace ms::cholesky
