// bindings of this room
#include "native/bind.hpp"
namespace ms { void bind_order(nb::module_&) {} }
