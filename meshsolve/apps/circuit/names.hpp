// Names, numbered in order of first appearance: an open-addressing hash table over one pool of characters. O(length) for each
// name.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace ms::circuit {

class Names {
 public:
  int32_t size() const { return static_cast<int32_t>(hash_.size()); }

  std::string_view operator[](int32_t id) const {         // names are separated by line ends
    return {pool_.data() + start_[id], static_cast<size_t>(start_[id + 1] - start_[id] - 1)};
  }

  int32_t find(std::string_view name) const { return table_[slot(name, hash(name))]; }       // -1: unknown name

  int32_t add(std::string_view name) {
    const uint32_t h = hash(name);
    int32_t& entry = table_[slot(name, h)];
    if (entry >= 0) return entry;
    if (size() == std::numeric_limits<int32_t>::max() - 1) throw std::bad_alloc();
    const int32_t id = entry = size();
    pool_.append(name);
    pool_ += '\n';
    start_.push_back(static_cast<int64_t>(pool_.size()));
    hash_.push_back(h);
    if (2 * hash_.size() > table_.size()) grow();
    return id;
  }

  std::string joined() && {                               // all names, one per line
    if (!pool_.empty()) pool_.pop_back();
    return std::move(pool_);
  }

 private:
  std::string pool_;
  std::vector<int64_t> start_ = {0};         // (size + 1)
  std::vector<uint32_t> hash_;               // (size)
  std::vector<int32_t> table_ = std::vector<int32_t>(1024, -1);       // a power of two

  static uint32_t hash(std::string_view name) { return static_cast<uint32_t>(std::hash<std::string_view>{}(name)); }

  size_t slot(std::string_view name, uint32_t h) const {
    const size_t mask = table_.size() - 1;
    for (size_t s = h & mask;; s = (s + 1) & mask) {
      const int32_t id = table_[s];
      if (id < 0 || (hash_[id] == h && (*this)[id] == name)) return s;
    }
  }

  void grow() {
    table_.assign(4 * table_.size(), -1);
    const size_t mask = table_.size() - 1;
    for (int32_t id = 0; id < size(); ++id) {
      size_t s = hash_[id] & mask;
      while (table_[s] >= 0) s = (s + 1) & mask;
      table_[s] = id;
    }
  }
};

}  // namespace ms::circuit
