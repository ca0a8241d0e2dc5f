// The integer of the dense kernels: as wide as a pointer also on Windows, where long is not. No std header, see dense.inl.
#pragma once

namespace ms {
using Int = decltype(static_cast<const char*>(nullptr) - static_cast<const char*>(nullptr));       // std::ptrdiff_t
}
