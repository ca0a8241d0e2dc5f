// Integer of the dense kernels, as wide as a pointer also on Windows. No std header, see dense.inl.
#pragma once

namespace ms {
using Int = decltype(static_cast<const char*>(nullptr) - static_cast<const char*>(nullptr));       // std::ptrdiff_t
}
