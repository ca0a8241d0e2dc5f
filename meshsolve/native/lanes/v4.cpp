// Lane kernels for x86-64-v4.
#include "lanes.hpp"
#define ISA v4
#include "lanes.inl"
