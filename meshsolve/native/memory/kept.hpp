// Workspace that is kept between calls: new pages cost as much as a large part of a solve.
#pragma once
#include <mutex>

namespace ms {

// Workspace of solves. The first of several simultaneous solves uses the kept one, the others allocate their own.
template <class Space>
class Workspace {
 public:
  class Lease {
   public:
    explicit Lease(Workspace& kept) : first_(kept.lock_, std::try_to_lock), space_(first_ ? kept.space_ : own_) {}
    Space* operator->() { return &space_; }
    Space& operator*() { return space_; }
    bool is_kept() const { return first_.owns_lock(); }

   private:
    std::unique_lock<std::mutex> first_;
    Space own_;
    Space& space_;
  };

  Lease lease() { return Lease(*this); }

 private:
  std::mutex lock_;                      // held by the lease of the kept workspace
  Space space_;
};

}  // namespace ms
