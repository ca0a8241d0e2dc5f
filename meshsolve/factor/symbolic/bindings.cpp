// bindings of this room
#include "native/bind.hpp"
namespace ms { void bind_symbolic(nb::module_&) {} }
