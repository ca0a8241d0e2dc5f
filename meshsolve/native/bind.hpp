// Helpers of the bind_*() functions: array arguments, results that own their memory, release of the GIL. Array arguments are
// never converted: nanobind would convert silently (int64 2^32 becomes int32 0). Python converts them, with range checks.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <complex>
#include <memory>
#include <vector>

#include "native/dense/complex.hpp"
#include "native/gil.hpp"
#include "native/memory/buffer.hpp"
#include "sparse/check.hpp"
#include "sparse/csr.hpp"
#include "native/threads/interrupt.hpp"
#include "native/memory/strided.hpp"

namespace ms {
namespace nb = nanobind;

// An array argument of exactly this type and layout. It does not own its memory: the caller's array outlives the call.
template <class T, class... Layout>
class Argument {
 public:
  using Array = nb::ndarray<T, Layout..., nb::device::cpu>;

  Argument() = default;
  explicit Argument(const Array& a) : data_(a.data()), size_(a.size()) {
    for (size_t axis = 0; axis < a.ndim(); ++axis) {
      shape_[axis] = a.shape(axis);
      stride_[axis] = a.stride(axis);
    }
  }
  T* data() const { return data_; }
  T& operator()(size_t i) const { return data_[i * stride_[0]]; }
  size_t size() const { return size_; }
  size_t shape(size_t axis) const { return shape_[axis]; }
  int64_t stride(size_t axis) const { return stride_[axis]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0, shape_[2] = {};
  int64_t stride_[2] = {};
};

template <class T> using In = Argument<const T, nb::ndim<1>, nb::c_contig>;      // read only
template <class T> using InOut = Argument<T, nb::ndim<1>, nb::c_contig>;         // written
template <class T> using Block = Argument<T, nb::ndim<2>>;                       // n x k, any strides

template <class Array> int64_t extent(const Array& a, size_t axis = 0) { return static_cast<int64_t>(a.shape(axis)); }

// What follows is called by most functions: compiled once, not into each of them.

// A numpy array of memory that `owner` owns, read-only if T is const. Call with the GIL held.
template <class T> NB_NOINLINE nb::object array(T* data, size_t size, nb::handle owner) {
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {size}, owner));
}

// A vector becomes a numpy array without a copy. Call with the GIL held.
template <class T, class A> NB_NOINLINE nb::object to_numpy(std::vector<T, A>&& v) {
  auto held = std::make_unique<std::vector<T, A>>(std::move(v));
  nb::capsule owner(held.get(), [](void* p) noexcept { delete static_cast<std::vector<T, A>*>(p); });
  std::vector<T, A>* data = held.release();
  return array(data->data(), data->size(), owner);
}

// The arrays of a pattern: (indptr, indices).
inline nb::tuple to_numpy(OwnedPattern&& A) { return nb::make_tuple(to_numpy(std::move(A.ptr)), to_numpy(std::move(A.idx))); }

// A numpy copy of a vector with any allocator.
template <class V> auto copied(const V& v) { return to_numpy(std::vector<typename V::value_type>(v.begin(), v.end())); }
template <class T> std::vector<T> to_vector(const In<T>& a) { return {a.data(), a.data() + a.shape(0)}; }

// A read-only numpy view of memory that `owner` owns.
template <class T> nb::object view(const T* data, size_t size, nb::handle owner) { return array(data, size, owner); }
template <class T, class A> auto view(const std::vector<T, A>& v, nb::handle owner) { return view(v.data(), v.size(), owner); }
template <class T> auto view(const Buffer<T>& v, nb::handle owner) { return view(v.data(), static_cast<size_t>(v.size()), owner); }

template <class T> Strided<T> strided(const Block<T>& b) { return {b.data(), b.stride(0), b.stride(1)}; }

// The type of numpy for a scalar: std::complex<double> and Complex are both two doubles in a row.
template <class T> struct Numpy { using type = T; };
template <> struct Numpy<Complex> { using type = std::complex<double>; };
template <class T> using NumpyOf = typename Numpy<T>::type;

template <class T> const T* native(const NumpyOf<T>* p) { return reinterpret_cast<const T*>(p); }
template <class T> T* native(NumpyOf<T>* p) { return reinterpret_cast<T*>(p); }
template <class T, class S> auto native(const Block<S>& b) {
  return Strided<std::remove_pointer_t<decltype(native<T>(b.data()))>>{native<T>(b.data()), b.stride(0), b.stride(1)};
}

inline Pattern pattern(const In<int64_t>& indptr, const In<int32_t>& indices) {
  return {static_cast<int32_t>(indptr.shape(0)) - 1, indptr.data(), indices.data()};
}

// Long native work releases the GIL and polls for Ctrl-C. Create arrays after it, with the GIL:
//   return to_numpy(released([&] { return work(); }));
struct Released {
  NB_NOINLINE Released() {}
  NB_NOINLINE ~Released() {}
  NoGil gil;
  interrupt::Caller caller;
};
template <class Work> auto released(Work&& work) {
  Released free;
  return work();
}

// solve_vector() of a factor: calls solve(data of b, data of x). False, without a solve, if b is not finite or its length
// differs.
template <class Solve> bool solve_vector(const In<double>& b, const InOut<double>& x, Solve&& solve) {
  const int64_t n = extent(x);
  if (extent(b) != n || first_not_finite(b.data(), n) >= 0) return false;
  Released free;
  solve(b.data(), x.data());
  return true;
}

}  // namespace ms

namespace nanobind::detail {
template <class T, class... Layout>
struct type_caster<ms::Argument<T, Layout...>> {
  using Argument = ms::Argument<T, Layout...>;
  using Array = make_caster<typename Argument::Array>;
  NB_TYPE_CASTER(Argument, dtype_traits<std::remove_const_t<T>>::name + const_name("[]"))     // long names take long to compile

  type_caster() = default;
  NB_NOINLINE ~type_caster() {}
  NB_NOINLINE bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    if (!array.from_python(source, flags & ~static_cast<uint32_t>(cast_flags::convert), cleanup)) return false;
    value = Argument(array.value);
    return true;
  }
  Array array;                  // keeps the memory during the call
};
}  // namespace nanobind::detail
