// The columns of a unit lower triangle as a factorization stores them: consecutive, or in the stores of several threads.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "native/memory/raw_vector.hpp"

namespace ms::trisolve {

template <class T>
struct Store {                          // entries below the diagonal
  RawVector<int32_t> rows;
  RawVector<T> values;                  // MINUS the entries
};

struct Location {                          // of a column: its store and its begin in it
  int64_t offset;
  int32_t store;
};

template <class T>
struct ColumnStores {
  RawVector<int64_t> ptr;               // (n + 1) begin of the columns if they were consecutive
  std::vector<Store<T>> stores;
  RawVector<Location> position;               // (n); empty: consecutive in one store
  RawVector<int32_t> name;              // (n) row of index i of the stores; empty: i

  ColumnStores() = default;
  ColumnStores(RawVector<int64_t>&& starts, RawVector<int32_t>&& rows, RawVector<T>&& values) : ptr(std::move(starts)) {
    stores.push_back({std::move(rows), std::move(values)});
  }

  int32_t n() const { return static_cast<int32_t>(ptr.size()) - 1; }
  int64_t length(int32_t k) const { return ptr[k + 1] - ptr[k]; }
  Location of(int32_t k) const { return position.empty() ? Location{ptr[k], 0} : position[k]; }
  const int32_t* rows(int32_t k) const { return stores[of(k).store].rows.data() + of(k).offset; }
  const T* values(int32_t k) const { return stores[of(k).store].values.data() + of(k).offset; }
  int32_t row(int32_t i) const { return name.empty() ? i : name[i]; }
};

// level[k] = length of the longest path to k through the columns, from 0.
template <class T> std::vector<int32_t> level_sets(const ColumnStores<T>& L);

}  // namespace ms::trisolve
