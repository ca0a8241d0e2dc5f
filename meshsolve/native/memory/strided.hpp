// Right-hand sides and solutions as they come from Python.
#pragma once
#include <cstdint>

namespace ms {

template <class T>
struct Strided {                          // element (i, c) at data[i * row + c * column]
  T* data;
  int64_t row, column;
  T& at(int64_t i, int64_t c) const { return data[i * row + c * column]; }
  Strided from(int64_t c) const { return {data + c * column, row, column}; }
};

}  // namespace ms
