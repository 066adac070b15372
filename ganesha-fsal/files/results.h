// What the parts of FileData say alike.
#pragma once

#include "ganesha-fsal/meta/ops/namespace.h"
#include "rpc/base/error.h"

namespace weft::mds {

// The error of a result that is a constant.
template <class T>
[[nodiscard]] std::unexpected<Error> failed(const Result<T>& result) {
  return std::unexpected(result.error());
}

// A Namespace::MakeLayout where the file has one already.
[[nodiscard]] inline Result<layout::LayoutMap> no_layout(const InodeAttributes& /*file*/) {
  return fail(Errc::kCorrupt, "a file with data at its objects, and without a layout");
}

}  // namespace weft::mds
