// Lane kernels for x86-64-v2, and for every other processor.
#include "lanes.hpp"
#define ISA v2
#pragma GCC diagnostic ignored "-Wpsabi"       // four doubles are wider than a register; they are never passed
#include "lanes.inl"
