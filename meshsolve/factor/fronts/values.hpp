// Values of the factored matrix in the order of its fronts. If a factorization fails or is interrupted, the earlier factor is
// restored by factoring its matrix again, which is cheaper than a second copy of L. This reuses existing memory, except for some
// small blocks and, on several threads, a chunk of an arena. If even that memory is not available, the factor is lost and its
// next use raises an error. The same happens if updates in place have left values without a factor in rounding.
#pragma once
#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <utility>

#include "fronts.hpp"
#include "native/memory/buffer.hpp"
#include "native/memory/scratch.hpp"
#include "native/threads/interrupt.hpp"
#include "native/threads/parallel.hpp"

namespace ms::fronts {

struct FactorLost : std::bad_alloc {
  const char* what() const noexcept override {
    return "memory ran out while the earlier factor was brought back after an error, and it is lost: refactor() makes a new one";
  }
};

struct FactorLostOnDisk : std::exception {
  const char* what() const noexcept override {
    return "the file of the factor could not be written while the earlier factor was brought back after an error, and the factor is lost: "
           "refactor() makes a new one";
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
  // Runs numeric(values) on Ax (in the analyzed pattern, both triangles; one half is read), which returns -1 or the column where
  // it failed. If it fails or throws, numeric runs again on the earlier values, if any. numeric must call written() before it
  // changes the factor.
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

  // Changes the factor in place. If rotate() returns -1, edit(values) updates the values. If it returns a number or throws after
  // written(), numeric() computes the factor of the earlier values again. If the edit takes long, a copy is edited before, and
  // the edit may throw; otherwise it must not.
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
    if (lost_ == Lost::disk) throw FactorLostOnDisk();
  }
  const T* data() const { return held_.data(); }        // as tree.entry_source; nullptr before the first factorization
  int64_t scalars() const { return held_.size() + next_.size(); }
  int64_t changes() const { return changes_; }          // number of successful factorizations and updates

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
    } catch (const ScratchError&) {
      lost_ = Lost::disk;
    }
  }

  enum class Lost { no, memory, rounding, disk };

  Buffer<T> held_, next_;
  std::atomic<bool> written_{false};
  Lost lost_ = Lost::no;
  int64_t changes_ = 0;
};

}  // namespace ms::fronts
