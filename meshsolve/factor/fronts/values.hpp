// The values of the factored matrix in the order in which its fronts take them up. A factorization that fails or is
// interrupted brings the earlier factor back by factoring its matrix anew: cheaper for everyone than a second copy of L.
// It works in memory that is there already, but for some small blocks and, on several threads, a chunk of an arena. Where the
// system has none left even for these, the factor is lost, and says so when it is used. So it is where updates in place have left
// values that have no factor in rounding.
#pragma once
#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <utility>

#include "fronts.hpp"
#include "native/memory/buffer.hpp"
#include "native/threads/interrupt.hpp"
#include "native/threads/parallel.hpp"

namespace ms::fronts {

struct FactorLost : std::bad_alloc {
  const char* what() const noexcept override {
    return "memory ran out while the earlier factor was brought back after an error, and it is lost: refactor() makes a new one";
  }
};

struct FactorLostInRounding : std::exception {
  const char* what() const noexcept override {
    return "the matrix that updates have made is not positive definite in rounding, so its factor could not be brought back after an error "
           "and is lost: refactor() makes a new one";
  }
};

template <class T>
class MatrixValues {
 public:
  // Runs numeric(values) on Ax (in the analysed pattern, both triangles; one half is read): it returns -1, or the column where
  // it failed. Then, or where it throws, it has run once more on the values before, if there were any. It says written() before
  // it changes the first number of the factor.
  template <class Numeric>
  int32_t factor(const AssemblyTree& tree, const double* Ax, int threads, const Numeric& numeric) {
    gather(tree, Ax, threads);
    written_ = false;
    int32_t failed = -1;
    try {
      failed = numeric(next_.data());
    } catch (...) {
      restore(numeric);
      throw;
    }
    if (failed < 0) {
      std::swap(held_, next_);
      lost_ = Lost::no;
      ++changes_;
    } else {
      restore(numeric);
    }
    return failed;
  }

  // Changes the factor in place: rotate() returns -1, and edit(values) brings these up to date; or it returns a number or throws, and
  // numeric() makes the factor of the values before once more, if it has said written(). Where the edit takes long, a copy is edited
  // beforehand, so that it may throw; else it may not.
  template <class Rotate, class Edit, class Numeric>
  int32_t change(const Rotate& rotate, const Edit& edit, bool takes_long, const Numeric& numeric) {
    if (takes_long) {
      if (!next_.data()) next_ = Buffer<T>(held_.size());
      std::copy_n(held_.data(), held_.size(), next_.data());
      edit(next_.data());
    }
    written_ = false;
    int32_t failed = -1;
    try {
      failed = rotate();
    } catch (...) {
      restore(numeric);
      throw;
    }
    if (failed < 0) {
      if (takes_long)
        std::swap(held_, next_);
      else
        edit(held_.data());
      ++changes_;
    } else {
      restore(numeric);
      require_factor();
    }
    return failed;
  }
  void written() { written_.store(true, std::memory_order_relaxed); }

  void require_factor() const {
    if (lost_ == Lost::memory) throw FactorLost();
    if (lost_ == Lost::rounding) throw FactorLostInRounding();
  }
  const T* data() const { return held_.data(); }        // as tree.entry_source; nullptr before the first factorization
  int64_t scalars() const { return held_.size() + next_.size(); }
  int64_t changes() const { return changes_; }          // how often the factor has become that of another matrix

 private:
  void gather(const AssemblyTree& tree, const double* Ax, int threads) {
    const uint32_t* const source = tree.entry_source.data();
    if (!next_.data()) next_ = Buffer<T>(tree.entries(), threads);
    for_range(threads, next_.size(), 1 << 16, [&](int64_t b, int64_t e, int) {
      for (int64_t p = b; p < e; ++p) next_.data()[p] = static_cast<T>(Ax[source[p]]);
    });
  }

  template <class Numeric>
  void restore(const Numeric& numeric) {
    if (!held_.data() || lost_ != Lost::no || !written_) return;
    const interrupt::Undisturbed whole;
    try {
      if (numeric(held_.data()) >= 0) lost_ = Lost::rounding;
    } catch (const std::bad_alloc&) {
      lost_ = Lost::memory;
    }
  }

  enum class Lost { no, memory, rounding };

  Buffer<T> held_, next_;
  std::atomic<bool> written_{false};
  Lost lost_ = Lost::no;
  int64_t changes_ = 0;
};

}  // namespace ms::fronts
