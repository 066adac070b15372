// What a data server's file handle (handle.h) says of copies, for who has not opened it: where the
// bytes of a WRITE are to go is decided while they come.
//
// Threading: a pure function.
#pragma once

#include <cstddef>
#include <span>

namespace weft::layout {

// Whether sealed bytes say that what is written through them concerns copies: the handle asks for
// duplication, or is another data server's, which brings it. A hint, as nobody has checked the MAC.
// False for what is no handle.
[[nodiscard]] bool seems_of_copies(std::span<const std::byte> bytes);

}  // namespace weft::layout
