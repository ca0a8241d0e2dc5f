// Memory that one call leaves for the next: fresh pages cost as much as a good part of a solve.
#pragma once
#include <mutex>

namespace ms {

// What solves work in. The first of several simultaneous solves takes the one that is kept, the others make their own.
template <class Space>
class KeptSpace {
 public:
  class Loan {
   public:
    explicit Loan(KeptSpace& kept) : first_(kept.lock_, std::try_to_lock), space_(first_ ? kept.space_ : own_) {}
    Space* operator->() { return &space_; }
    Space& operator*() { return space_; }
    bool is_kept() const { return first_.owns_lock(); }

   private:
    std::unique_lock<std::mutex> first_;
    Space own_;
    Space& space_;
  };

  Loan lend() { return Loan(*this); }

 private:
  std::mutex lock_;
  Space space_;
};

}  // namespace ms
