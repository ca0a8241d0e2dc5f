// The steps after the pivots of a block row: compute its columns of U, drop small entries, and append the rest to the pools of
// finished rows.
#pragma once
#include "factor/ildl/rows.cuh"

namespace ms::ildl {

// One column of U = D^-1 L^-1 P A in the registers of a thread. Each tile is padded with zeros to `most` rows: a branch at each
// row would make the thread wait for the load of each.
template <int most> struct Column {
  double x[most];

  __device__ __forceinline__ void load(const double* from, int stride, int m) {
#pragma unroll
    for (int r = 0; r < most; ++r) x[r] = r < m ? from[static_cast<long long>(r) * stride] : 0.0;
  }
  __device__ __forceinline__ void store(double* to, int stride, int m) const {
#pragma unroll
    for (int r = 0; r < most; ++r)
      if (r < m) to[static_cast<long long>(r) * stride] = x[r];
  }

  __device__ __forceinline__ void solve(const double* from, int stride, int m, const Shared& S) {
#pragma unroll
    for (int r = 0; r < most; ++r) x[r] = r < m ? from[static_cast<long long>(S.order[r]) * stride] : 0.0;
#pragma unroll
    for (int k = 0; k + 1 < most; ++k)
#pragma unroll
      for (int r = k + 1; r < most; ++r) x[r] -= times(S.factor[r + k * most], x[k]);
    double above = 0;                                       // old value of the row before
#pragma unroll
    for (int r = 0; r < most; ++r) {
      const double own = x[r], other = S.mate[r] > 0 ? x[r + 1 < most ? r + 1 : r] : above;
      x[r] = S.mate[r] ? times(S.ratio[r], own) - other : own;
      above = own;
    }
    divide(S);
  }

  __device__ __forceinline__ void divide(const Shared& S) {
#pragma unroll
    for (int base = 0; base < most; base += few_rows) {
      bool tame = *S.tame;
      double y[few_rows];
#pragma unroll
      for (int i = 0; i < few_rows; ++i) {
        y[i] = quotient(x[base + i], S.divisor[base + i], S.inverse[base + i]);
        tame &= is_tame(x[base + i]) && is_tame(y[i]);
      }
#pragma unroll
      for (int i = 0; i < few_rows; ++i) x[base + i] = tame ? y[i] : x[base + i] / S.divisor[base + i];
    }
  }

  // Sets small entries to zero; returns true if any entry is left.
  __device__ __forceinline__ bool sift(const double* norm, long long& lost) {
    bool any = false;
#pragma unroll
    for (int r = 0; r < most; ++r) {
      const bool there = x[r] != 0, keep = there && !(magnitude(x[r]) <= norm[r]);
      lost += there && !keep;
      any |= keep;
      if (!keep) x[r] = 0;
    }
    return any;
  }

  __device__ __forceinline__ double largest() const {
    double found = 0;
#pragma unroll
    for (int r = 0; r < most; ++r) found = max(found, magnitude(x[r]));
    return found;
  }

  // Stores the column, and D times the column.
  __device__ __forceinline__ void keep(double* value, double* scaled, int m, const Shared& S) const {
#pragma unroll
    for (int r = 0; r < most; ++r) {
      const int mate = S.mate[r], before = r > 0 ? r - 1 : r, after = r + 1 < most ? r + 1 : r;
      const double own = times(S.d[r], x[r]), other = mate > 0 ? times(S.e[r], x[after]) : times(S.e[before], x[before]);
      if (r < m) {
        value[r] = x[r];
        scaled[r] = mate ? own + other : own;
      }
    }
  }
};

// Adds squares of the current columns to the partial sums of each row, which have a fixed shape.
template <int most>
__device__ __forceinline__ void add_squares(const Rows& R, const Row& row, const Shared& S, const Column<most>& column, bool on,
                                            int count) {
  const int stride = R.round + padding;
  if (on) {
#pragma unroll
    for (int r = 0; r < most; ++r) S.x[r * stride + threadIdx.x] = times(column.x[r], column.x[r]);
  }
  __syncthreads();
  for (int p = threadIdx.x; p < norm_parts * row.m; p += blockDim.x) {
    const double* const squares = S.x + p / norm_parts * stride;
    double sum = S.parts[p];
    for (int q = p % norm_parts; q < count; q += norm_parts) sum += squares[q];
    S.parts[p] = sum;
  }
  __syncthreads();
}

// Drop tolerance of each row; the two rows of a pivot have the same.
__device__ __forceinline__ void row_norms(const Rows& R, const Row& row, const Shared& S) {
  for (int r = threadIdx.x; r < R.lead; r += blockDim.x) {
    double sum = 1;
    for (int s = 0; s < norm_parts; ++s) sum += S.parts[r * norm_parts + s];
    S.ratio[r] = R.droptol * sqrt(sum);
  }
  __syncthreads();
  for (int r = threadIdx.x; r < R.lead; r += blockDim.x) S.norm[r] = max(S.ratio[r], S.ratio[r + S.mate[r]]);
  __syncthreads();
}

// Reserves space for `count` columns in the pools; false if they are full.
__device__ __forceinline__ bool reserve_columns(const Rows& R, const Row& row, int kept, long long& names, long long& values) {
  __shared__ long long first[2];
  if (threadIdx.x == 0) {
    const unsigned long long count = static_cast<unsigned long long>(kept);
    first[0] = static_cast<long long>(atomicAdd(R.state + names_used, count));
    first[1] = static_cast<long long>(atomicAdd(R.state + values_used, count * static_cast<unsigned long long>(row.m)));
    R.count[row.i] = kept;
    R.first_name[row.i] = first[0];
    R.first_value[row.i] = first[1];
  }
  __syncthreads();
  names = first[0];
  values = first[1];
  return names + kept <= R.names_capacity && values + static_cast<long long>(kept) * row.m <= R.values_capacity;
}

// Computes the columns of U from the panel, drops small entries and appends the rest to the pools; false if these are full. Each
// thread has one column. Beyond `round` columns, the others stay in the panel until their turn.
template <int most> __device__ __forceinline__ bool make_columns(const Rows& R, const Row& row, const Shared& S, long long& lost) {
  const int m = row.m, round = min(R.round, static_cast<int>(blockDim.x)), thread = threadIdx.x;
  const bool several = row.columns > round;
  Column<most> column;
  const auto panel = [&](int base) { return row.panel + row.slot[base + thread]; };
  const auto on = [&](int base) { return thread < round && base + thread < row.columns; };
  for (int p = thread; p < norm_parts * most; p += blockDim.x) S.parts[p] = 0;
  __syncthreads();
  for (int base = 0; base < row.columns; base += round) {
    if (on(base)) column.solve(panel(base), row.slots, m, S);
    if (on(base) && several) column.store(panel(base), row.slots, m);
    add_squares(R, row, S, column, on(base), min(round, row.columns - base));
  }
  row_norms(R, row, S);
  bool stays = false;
  int position = 0, kept = 0;
  const auto sift = [&](int base, long long& dropped) {
    int here;
    if (on(base) && several) column.load(panel(base), row.slots, m);
    stays = on(base) && column.sift(S.norm, dropped);
    position = kept + block_exclusive_sum(static_cast<int>(stays), here);
    kept += here;
  };
  for (int base = 0; base < row.columns; base += round) sift(base, lost);
  long long names, values, again = 0;
  if (!reserve_columns(R, row, kept, names, values)) return false;
  kept = 0;
  for (int base = 0; base < row.columns; base += round) {
    if (several) sift(base, again);
    if (!stays) continue;
    const long long at = values + static_cast<long long>(position) * m;
    column.keep(R.value + at, R.scaled + at, m, S);
    R.name[names + position] = row.name_of(R, row.slot[base + thread]);
    if (R.budgets()) R.size[names + position] = column.largest();
  }
  return true;
}

}  // namespace ms::ildl
