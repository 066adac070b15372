#include "ganesha-fsal/glue/module.h"

#include <spdlog/spdlog.h>

#include <thread>

#include "ganesha-fsal/glue/export.h"
#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/layout_ops.h"
#include "ganesha-fsal/glue/log.h"
#include "ganesha-fsal/glue/object_ops.h"
#include "ganesha-fsal/glue/recaller.h"
#include "ganesha-fsal/glue/start_check.h"
#include "ganesha-fsal/glue/watchdog.h"
#include "rpc/base/service_manager.h"

namespace weft::mds {
namespace {

constexpr char kName[] = "WEFT";
constexpr std::uint32_t kMaxNameBytes = 255;
constexpr std::uint32_t kMaxLinks = 65000;
constexpr std::uint32_t kMaxIoBytes = 1U << 20;

void fill_static_info(fsal_staticfsinfo_t& info) {
  info.maxfilesize = INT64_MAX;
  info.maxlink = kMaxLinks;
  info.maxnamelen = kMaxNameBytes;
  info.maxpathlen = MAXPATHLEN;
  info.no_trunc = true;
  info.chown_restricted = true;
  info.case_preserving = true;
  info.link_support = true;
  info.symlink_support = true;
  // Byte-range locks and their owners are Ganesha's: it keeps them all by itself when the FSAL
  // has none, and there is only one metadata server that could be asked.
  info.lock_support = false;
  info.unique_handles = true;
  info.cansettime = true;
  info.homogenous = true;
  info.supported_attrs = ATTRS_POSIX | ATTR4_XATTR;
  info.maxread = kMaxIoBytes;
  info.maxwrite = kMaxIoBytes;
  info.pnfs_mds = true;
  info.link_supports_permission_checks = true;  // the namespace does
  info.readdir_plus = true;
  info.xattr_support = true;
  info.expire_time_parent = -1;
}

// Ganesha does not tell it.
void tell_when_ready() {
  std::thread([] {
    nfs_init_wait();
    tell_service_manager("READY=1\nSTATUS=serves");
    start_watchdog();
  }).detach();
}

fsal_status_t init_config(fsal_module* self, config_file_t /*config*/,
                          config_error_type* /*err_type*/) {
  if (!check_before_start()) return fsalstat(ERR_FSAL_INVAL, EINVAL);
  display_fsinfo(self);
  // Without NFSv3 there are no NLM clients. Ganesha would wait for them all the same: a server that
  // nobody has ever used would be in grace for its whole length.
  if ((nfs_param.core_param.core_options & CORE_OPTION_NFSV3) == 0) {
    nfs_param.core_param.enable_NLM = false;
  }
  tell_when_ready();
  return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

}  // namespace

Module& module() {
  static Module instance{};
  return instance;
}

}  // namespace weft::mds

// Ganesha's loader runs this when it opens the library, and the other before it closes it.
extern "C" {

MODULE_INIT void weft_module_load(void) {
  using namespace weft::mds;
  log_to_ganesha();
  Module& self = module();
  if (register_fsal(&self, kName, FSAL_MAJOR_VERSION, FSAL_MINOR_VERSION, kFsalId) != 0) {
    LogCrit(COMPONENT_FSAL, "FSAL %s could not register", kName);
    return;
  }
  fill_static_info(self.fs_info);
  self.m_ops.init_config = guarded<&init_config>;
  self.m_ops.create_export = guarded<&create_export>;
  self.m_ops.update_export = guarded<&update_weft_export>;
  self.m_ops.getdeviceinfo = guarded<&getdeviceinfo>;
  self.m_ops.fs_da_addr_size = guarded<&device_body_size>;
  init_object_ops(self.object_ops);
  UpcallRecaller::start_threads();
}

MODULE_FINI void weft_module_unload(void) {
  weft::mds::stop_watchdog();
  weft::mds::exports().wait_closed();
  weft::mds::UpcallRecaller::stop_threads();
  weft::mds::leave_ganeshas_log();
  if (unregister_fsal(&weft::mds::module()) != 0) {
    LogCrit(COMPONENT_FSAL, "FSAL WEFT could not be unloaded");
  }
}
}
