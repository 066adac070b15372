// The layout operations: what LAYOUTGET, LAYOUTRETURN, LAYOUTCOMMIT and GETDEVICEINFO answer.
//
// They run in Ganesha's workers, LAYOUTRETURN and LAYOUTCOMMIT under the file's state lock. So
// LAYOUTRETURN waits for no data server; LAYOUTCOMMIT does in one rare case only (a file cut under
// its layout, files/file_data.h), with a deadline. Bodies are encoded by layout/, and handed to
// Ganesha as they are.
#pragma once

#include "ganesha-fsal/glue/ganesha.h"

namespace weft::mds {

void init_layout_export_ops(export_ops& ops);

// Module operations. The export is found by the number in the device id: there is none in op_ctx.
nfsstat4 getdeviceinfo(fsal_module* fsal, XDR* body, layouttype4 type, const pnfs_deviceid* device);
std::size_t device_body_size(fsal_module* fsal);

}  // namespace weft::mds
