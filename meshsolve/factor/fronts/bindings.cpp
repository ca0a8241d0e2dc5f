// bindings of this room
#include "native/bind.hpp"
namespace ms { void bind_fronts(nb::module_&) {} }
