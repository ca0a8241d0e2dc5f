#include "stored.hpp"

#include <algorithm>
#include <vector>

#include "factor/fronts/traverse.hpp"

namespace ms::cholesky {

template <class T>
T* PanelWriter<T>::open(int32_t s, int threads) {
  const int64_t size = ptr_[s + 1] - ptr_[s];
  const bool is_large = size > window<T>;
  if (is_large || ptr_[s] != begin_ + size_ || size_ + size > window<T>) flush();
  if (is_large) {
    large_ = Buffer<T>(size, threads);
    return large_.data();
  }
  if (!group_.data()) group_ = Buffer<T>(window<T>);
  if (size_ == 0) begin_ = ptr_[s];
  return group_.data() + size_;
}

template <class T>
void PanelWriter<T>::close(int32_t s) {
  const int64_t size = ptr_[s + 1] - ptr_[s];
  if (size <= window<T>) {
    size_ += size;
    return;
  }
  write(large_.data(), ptr_[s], size);
  large_ = Buffer<T>();
}

template <class T>
void PanelWriter<T>::flush() {
  if (size_ > 0) write(group_.data(), begin_, size_);
  size_ = 0;
}

template <class T>
void PanelWriter<T>::write(const T* data, int64_t begin, int64_t size) {
  constexpr int64_t bytes = sizeof(T);
  file_.write(data, size * bytes, begin * bytes);
}

template <class T>
Step<const T> PanelReader<T>::step(int32_t s, int64_t k, int worker, Order order) {
  Window& mine = windows_[worker];
  const PanelShape shape = panel_shape(tree_, s);
  if (!is_small(s)) {
    Step<const T> at = shape.step<const T>(nullptr, k);
    const int64_t begin = ptr_[s] + shape.offset(k);
    read(mine, begin, begin + at.width * at.ld);
    at.data = mine.data.data();
    return at;
  }
  if (ptr_[s] < mine.begin || ptr_[s + 1] > mine.end) {       // the next small panels of the task, as far as they fit
    const fronts::Schedule::Task task = *std::ranges::upper_bound(plan_.tasks, s, {}, &fronts::Schedule::Task::end);
    int32_t first = s, end = s + 1;
    if (order == Order::forward)
      while (end < task.end && is_small(end) && ptr_[end + 1] - ptr_[first] <= window<T>) ++end;
    else
      while (first > task.begin && is_small(first - 1) && ptr_[end] - ptr_[first - 1] <= window<T>) --first;
    read(mine, ptr_[first], ptr_[end]);
  }
  return shape.step<const T>(mine.data.data() + (ptr_[s] - mine.begin), k);
}

template <class T>
void PanelReader<T>::read(Window& window, int64_t begin, int64_t end) {
  constexpr int64_t bytes = sizeof(T);
  if (window.data.size() < end - begin) window.data = Buffer<T>(std::max(end - begin, ms::cholesky::window<T>));
  window.begin = window.end = 0;                              // if the read fails
  file_.read(window.data.data(), (end - begin) * bytes, begin * bytes);
  window.begin = begin, window.end = end;
}

template <class T>
FileNeeds fronts_in_file(const fronts::AssemblyTree& tree, const std::vector<int64_t>& panel_ptr, int threads) {
  const auto plan = fronts::plan_of(tree, threads, fronts::Use::factor_in_file);
  const auto update = [&](int32_t s) { return fronts::PackedLower{tree.updates(s)}.size(); };
  const auto is_in_file = [&](int32_t s) { return plan->slot[s] >= 0 && update(s) > fronts::SmallBlocks<T>::most; };
  int64_t in_tasks = 0, shared = 0, held = 0, most_held = 0, small = 0;
  for (int32_t s = 0; s < tree.count(); ++s) {
    const bool is_shared = std::binary_search(plan->last.begin(), plan->last.end(), s);
    const int64_t panel = panel_ptr[s + 1] - panel_ptr[s];
    int64_t tile = 0;
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t c = tree.child[q];
      if (!is_in_file(c)) continue;
      tile = std::max(tile, std::min(tree.updates(c), fronts::PackedLower::tile) * tree.updates(c));
      held -= update(c);
    }
    const int64_t needs = (panel > window<T> ? panel : 0) + (is_in_file(s) ? update(s) : 0) + (is_shared ? threads : 1) * tile;
    (is_shared ? shared : in_tasks) = std::max(is_shared ? shared : in_tasks, needs);
    if (is_in_file(s)) held += update(s);
    else if (plan->slot[s] >= 0) small += update(s);
    most_held = std::max(most_held, held);
  }
  const int64_t stacks = plan->stacks.scalars(fronts::packed_lower, 0) + plan->stacks.scalars(fronts::packed_lower, 1);
  return {threads * (stacks + window<T>) + 2 * tree.entries() + 2 * small + std::max(threads * in_tasks, shared), panel_ptr.back() + most_held};
}

template class PanelWriter<double>;
template class PanelWriter<float>;
template class PanelReader<double>;
template class PanelReader<float>;
template FileNeeds fronts_in_file<double>(const fronts::AssemblyTree&, const std::vector<int64_t>&, int);
template FileNeeds fronts_in_file<float>(const fronts::AssemblyTree&, const std::vector<int64_t>&, int);

}  // namespace ms::cholesky
