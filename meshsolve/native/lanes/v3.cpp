// Lane kernels for x86-64-v3.
#include "lanes.hpp"
#define ISA v3
#include "lanes.inl"
