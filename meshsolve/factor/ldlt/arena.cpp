// Chunks of an arena and the pages in them.
#include "arena.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ms {
namespace {

constexpr size_t step = size_t{4} << 20;       // bytes of pages that are made at a time: two huge pages
constexpr size_t large = 4096;                 // bytes from which a block is aligned to a cache line
constexpr size_t page = 4096;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void Arena::reset(int workers, size_t chunk) {
  workers_.assign(workers, {});
  least_ = chunk;
  free_.clear();
  for (const auto& c : chunks_) {
    c->used = 0;
    free_.emplace(c->size(), c.get());
  }
}

// The smallest free chunk that is large enough, or a new one in place of the largest free chunk. So blocks that grow from call to
// call leave no unused chunks.
Arena::Chunk* Arena::chunk_for(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = free_.lower_bound(bytes); found != free_.end()) {
    Chunk* const chunk = found->second;
    free_.erase(found);
    return chunk;
  }
  if (!free_.empty() && free_.rbegin()->first > least_) {
    const Chunk* const largest = free_.rbegin()->second;
    free_.erase(std::prev(free_.end()));
    std::erase_if(chunks_, [&](const auto& c) { return c.get() == largest; });
  }
  chunks_.reserve(chunks_.size() + 1);
  auto chunk = std::make_unique<Chunk>();
  chunk->memory = Buffer<char>::without_pages(static_cast<int64_t>(std::max(bytes, least_)), static_cast<int>(workers_.size()));
  chunks_.push_back(std::move(chunk));
  return chunks_.back().get();
}

void* Arena::take(size_t bytes, int worker, int threads) {
  Worker& w = workers_[worker];
  const auto begin = [&](const Chunk* c) { return rounded(c->used, bytes < large ? 8 : 64); };
  Chunk* chunk = w.current;
  if (!chunk || begin(chunk) + bytes > chunk->size()) {
    chunk = chunk_for(bytes);
    if (!w.current || chunk->size() - bytes > w.current->size() - w.current->used) w.current = chunk;
  }
  const size_t at = begin(chunk), end = at + bytes;
  if (end > chunk->made) {
    const size_t to = std::min(rounded(std::max(end, chunk->made + step), page), chunk->size());
    chunk->memory.make(chunk->made, to, threads);
    chunk->made = to;
  }
  chunk->used = end;
  return chunk->memory.data() + at;
}

int64_t Arena::nbytes() const {
  int64_t sum = 0;
  for (const auto& c : chunks_) sum += static_cast<int64_t>(c->used ? c->used : c->made);
  return sum;
}

}  // namespace ms
