#include "ganesha-fsal/glue/guard.h"

#include <algorithm>

namespace weft::mds {

WaitLimit& workers_that_wait() {
  // The configuration is read before anything is exported. A quarter leaves most workers to what
  // needs no data server; 50 of the usual 200 are more than commits of one disk have use for.
  static WaitLimit limit(std::max<std::size_t>(1, nfs_param.core_param.rpc.ioq_thrd_max / 4));
  return limit;
}

}  // namespace weft::mds
