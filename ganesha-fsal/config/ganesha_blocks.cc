#include "ganesha-fsal/config/ganesha_blocks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rpc/base/nearest.h"

namespace weft::mds {
namespace {

constexpr std::string_view kFlag[] = {"true", "false", "yes", "no", "on", "off"};
constexpr std::string_view kAccess[] = {"NONE", "RW", "RO", "MDONLY", "MDONLY_RO"};
constexpr std::string_view kExportProtocols[] = {"3",  "4",     "NFS3",  "NFS4", "V3",
                                                 "V4", "NFSV3", "NFSV4", "9P"};
constexpr std::string_view kProtocols[] = {"none",    "3",       "v3",   "nfs3",  "nfsv3",
                                           "4",       "v4",      "nfs4", "nfsv4", "nfsvsock",
                                           "nfsrdma", "rpcrdma", "9p"};
constexpr std::string_view kTransports[] = {"UDP", "TCP"};
constexpr std::string_view kSecTypes[] = {"none", "sys", "krb5", "krb5i", "krb5p"};
constexpr std::string_view kSquashes[] = {
    "Root",           "Root_Squash",  "RootSquash",     "All",  "All_Squash", "AllSquash",
    "All_Anonymous",  "AllAnonymous", "No_Root_Squash", "None", "NoIdSquash", "RootId",
    "Root_Id_Squash", "RootIdSquash"};
constexpr std::string_view kDelegations[] = {"NONE", "Read", "Write", "Readwrite", "R", "W", "RW"};
constexpr std::string_view kReadChecks[] = {"pre", "post", "all"};
constexpr std::string_view kUdp[] = {"false", "no", "off", "true", "yes", "on", "mount"};
constexpr std::string_view kRecoveryBackends[] = {"fs", "fs_ng", "rados_kv", "rados_ng",
                                                  "rados_cluster"};
constexpr std::string_view kMinorVersions[] = {"0", "1", "2"};

constexpr GaneshaKey kCoreKeys[] = {
    {"HAProxy_Hosts"},
    {"NFS_Port"},
    {"MNT_Port"},
    {"NLM_Port"},
    {"Rquota_Port"},
    {"NFS_RDMA_Port"},
    {"NFS_RDMA_Protocol_Versions"},
    {"Bind_Addr"},
    {"NFS_Program"},
    {"MNT_Program"},
    {"NLM_Program"},
    {"Rquota_Program"},
    {"NFSACL_Program"},
    {"Drop_IO_Errors", kFlag},
    {"Drop_Inval_Errors", kFlag},
    {"Drop_Delay_Errors", kFlag},
    {"DRC_Disabled", kFlag},
    {"DRC_Recycle_Hiwat"},
    {"DRC_TCP_Npart"},
    {"DRC_TCP_Size"},
    {"DRC_TCP_Cachesz"},
    {"DRC_TCP_Hiwat"},
    {"DRC_TCP_Recycle_Npart"},
    {"DRC_TCP_Recycle_Expire_S"},
    {"DRC_TCP_Checksum", kFlag},
    {"DRC_UDP_Npart"},
    {"DRC_UDP_Size"},
    {"DRC_UDP_Cachesz"},
    {"DRC_UDP_Hiwat"},
    {"DRC_UDP_Checksum", kFlag},
    {"RPC_Max_Connections"},
    {"RPC_Idle_Timeout_S"},
    {"MaxRPCSendBufferSize"},
    {"MaxRPCRecvBufferSize"},
    {"RPC_Max_RDMA_Connections"},
    {"MaxRPCRdmaCredits"},
    {"rpc_ioq_thrdmin"},
    {"RPC_Ioq_ThrdMax"},
    {"RPC_GSS_Npart"},
    {"RPC_GSS_Max_Ctx"},
    {"RPC_GSS_Max_GC"},
    {"Blocked_Lock_Poller_Interval"},
    {"NFS_Protocols", kProtocols, true},
    {"Protocols", kProtocols, true},
    {"Clustered", kFlag},
    {"Enable_NLM", kFlag},
    {"Disable_NLM_SHARE", kFlag},
    {"NSM_Use_Caller_Name", kFlag},
    {"Enable_RQUOTA", kFlag},
    {"Enable_NFSACL", kFlag},
    {"Enable_TCP_keepalive", kFlag},
    {"TCP_KEEPCNT"},
    {"TCP_KEEPIDLE"},
    {"TCP_KEEPINTVL"},
    {"Enable_NFS_Stats", kFlag},
    {"Enable_Fast_Stats", kFlag},
    {"Enable_FSAL_Stats", kFlag},
    {"Enable_FULLV3_Stats", kFlag},
    {"Enable_FULLV4_Stats", kFlag},
    {"Enable_AUTH_Stats", kFlag},
    {"Enable_CLNT_AllOps_Stats", kFlag},
    {"Short_File_Handle", kFlag},
    {"Manage_Gids_Expiration"},
    {"Plugins_Dir"},
    {"heartbeat_freq"},
    {"fsid_device", kFlag},
    {"resolve_fs_retries"},
    {"resolve_fs_delay"},
    {"mount_path_pseudo", kFlag},
    {"Enable_UDP", kUdp},
    {"Dbus_Name_Prefix"},
    {"Max_Uid_To_Group_Reqs"},
    {"Enable_V3fh_Validation_For_V4", kFlag},
    {"Readdir_Res_Size"},
    {"Readdir_Max_Count"},
    {"Getattrs_In_Complete_Read", kFlag},
    {"Enable_malloc_trim", kFlag},
    {"Malloc_trim_MinThreshold"},
    {"Monitoring_Port"},
    {"Enable_Dynamic_Metrics", kFlag},
    {"enable_rpc_cred_fallback", kFlag},
    {"Unique_Server_Id"},
    {"Enable_Connection_Manager", kFlag},
    {"Connection_Manager_Timeout_sec"},
    {"Allow_Set_Io_Flusher_Fail", kFlag},
};
constexpr GaneshaKey kKrb5Keys[] = {
    {"PrincipalName"},
    {"KeytabPath"},
    {"CCacheDir"},
    {"Active_krb5", kFlag},
};
constexpr GaneshaKey kNfs4Keys[] = {
    {"Sticky_Grace", kFlag},
    {"Graceless", kFlag},
    {"Lease_Lifetime"},
    {"Grace_Period"},
    {"Server_Scope"},
    {"Server_Owner"},
    {"DomainName"},
    {"IdmapConf"},
    {"UseGetpwnam", kFlag},
    {"Allow_Numeric_Owners", kFlag},
    {"Only_Numeric_Owners", kFlag},
    {"Delegations", kFlag},
    {"Deleg_Recall_Retry_Delay"},
    {"PNFS_MDS", kFlag},
    {"PNFS_DS", kFlag},
    {"RecoveryBackend", kRecoveryBackends},
    {"RecoveryRoot"},
    {"RecoveryDir"},
    {"RecoveryOldDir"},
    {"minor_versions", kMinorVersions, true},
    {"slot_table_size"},
    {"Enforce_UTF8_Validation", kFlag},
    {"Max_Client_Ids"},
    {"Max_Open_States_Per_Client"},
    {"Expired_Client_Threshold"},
    {"Max_Open_Files_For_Expired_Client"},
    {"Max_Alive_Time_For_Expired_Client"},
};
constexpr GaneshaKey kMdcacheKeys[] = {
    {"NParts"},
    {"Cache_Size"},
    {"Use_Getattr_Directory_Invalidation", kFlag},
    {"Dir_Chunk"},
    {"Detached_Mult"},
    {"Entries_HWMark"},
    {"Entries_Release_Size"},
    {"Chunks_HWMark"},
    {"Chunks_LWMark"},
    {"LRU_Run_Interval"},
    {"Cache_FDs", kFlag},
    {"Close_Fast", kFlag},
    {"FD_Limit_Percent"},
    {"FD_HWMark_Percent"},
    {"FD_LWMark_Percent"},
    {"Reaper_Work"},
    {"Reaper_Work_Per_Lane"},
    {"Biggest_Window"},
    {"Required_Progress"},
    {"Futility_Count"},
    {"Dirmap_HWMark"},
    {"Files_Delegatable_Percent"},
    {"Use_Cached_Owner_On_Owner_Override", kFlag},
};
// Who may do what: of an export, of all, or of some clients.
constexpr GaneshaKey kAccessKeys[] = {
    {"Access_Type", kAccess},
    {"Protocols", kExportProtocols, true},
    {"Transports", kTransports, true},
    {"Anonymous_uid"},
    {"Anonymous_gid"},
    {"SecType", kSecTypes, true},
    {"PrivilegedPort", kFlag},
    {"Manage_Gids", kFlag},
    {"Squash", kSquashes, true},
    {"NFS_Commit", kFlag},
    {"Delegations", kDelegations},
};
constexpr GaneshaKey kExportKeys[] = {
    {"Export_id"},
    {"Path"},
    {"Pseudo"},
    {"MaxRead"},
    {"MaxWrite"},
    {"PrefRead"},
    {"PrefWrite"},
    {"PrefReaddir"},
    {"Filesystem_id"},
    {"Read_Access_Check_Policy", kReadChecks, true},
    {"Tag"},
    {"MaxOffsetWrite"},
    {"MaxOffsetRead"},
    {"UseCookieVerifier", kFlag},
    {"DisableReaddirPlus", kFlag},
    {"Trust_Readdir_Negative_Cache", kFlag},
    {"Disable_ACL", kFlag},
    {"Security_Label", kFlag},
    {"Attr_Expiration_Time"},
};
constexpr GaneshaKey kDefaultKeys[] = {
    {"Attr_Expiration_Time"},
};
constexpr GaneshaKey kClientKeys[] = {
    {"Clients"},
};

constexpr GaneshaBlock kClient{"CLIENT", kClientKeys, {}, kAccessKeys};
constexpr GaneshaBlock kInExport[] = {kClient, {"FSAL"}};
constexpr GaneshaBlock kInDefaults[] = {kClient};

constexpr GaneshaBlock kBlocks[] = {
    {"NFS_CORE_PARAM", kCoreKeys},
    {"NFS_KRB5", kKrb5Keys},
    {"NFSv4", kNfs4Keys},
    {"MDCACHE", kMdcacheKeys},
    {"CacheInode", kMdcacheKeys},
    {"EXPORT", kExportKeys, kInExport, kAccessKeys},
    {"EXPORT_DEFAULTS", kDefaultKeys, kInDefaults, kAccessKeys},
    {"PSEUDOFS"},
    {"DS"},
    {"LOG"},
    {"DIRECTORY_SERVICES"},
    {"NFS_IP_Name"},
    {"FSAL_LIST"},
    {"_9P"},
    {"RADOS_KV"},
    {"RADOS_URLS"},
    // Of other FSALs.
    {"VFS"},
    {"XFS"},
    {"LUSTRE"},
    {"MEM"},
    {"PROXY_V3"},
    {"PROXY_V4"},
    {"GPFS"},
    {"LizardFS"},
    {"SaunaFS"},
    {"GLUSTER"},
    {"Ceph"},
    {"RGW"},
    {"KVSFS"},
};

template <class Named>
const Named* find(std::span<const Named> known, std::string_view name) {
  const auto found =
      std::ranges::find_if(known, [name](const Named& one) { return same_name(one.name, name); });
  return found == known.end() ? nullptr : &*found;
}

template <class Named>
std::string_view nearest_of(std::span<const Named> known, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Named& one : known) names.push_back(one.name);
  return nearest(name, names);
}

Result<> check_value(const GaneshaKey& key, const ConfStatement& statement) {
  if (key.words.empty()) return {};
  if (!key.many && statement.terms.size() > 1) {
    return conf_error(statement.place, fmt::format("{} takes one value", key.name));
  }
  for (const ConfTerm& term : statement.terms) {
    const auto is = [&term](std::string_view word) { return same_name(term.text, word); };
    if (std::ranges::any_of(key.words, is)) continue;
    return conf_error(
        statement.place,
        key.words.data() == kFlag
            ? fmt::format("{} = {}: must be true or false", key.name, term.text)
            : fmt::format("{} = {}: is no word that it takes; the nearest there is: {}", key.name,
                          term.text, nearest(term.text, key.words)));
  }
  return {};
}

Result<> check_keys(const GaneshaBlock& known, const ConfBlock& block) {
  std::vector<GaneshaKey> keys(known.keys.begin(), known.keys.end());
  keys.insert(keys.end(), known.shared.begin(), known.shared.end());
  const std::span<const GaneshaKey> all(keys);
  for (const ConfStatement& statement : block.statements) {
    const GaneshaKey* const key = find(all, statement.name);
    if (key == nullptr) {
      return conf_error(statement.place,
                        fmt::format("{} has no parameter {}; the nearest there is: {}", known.name,
                                    statement.name, nearest_of(all, statement.name)));
    }
    if (auto good = check_value(*key, statement); !good) return good;
  }
  return {};
}

Result<> check_block(const GaneshaBlock& known, const ConfBlock& block) {
  if (known.keys.empty()) return {};
  if (auto good = check_keys(known, block); !good) return good;
  for (const ConfBlock& inner : block.blocks) {
    const GaneshaBlock* const below = find(known.blocks, inner.name);
    if (below == nullptr) {
      return conf_error(inner.place, fmt::format("{} has no block {}", known.name, inner.name));
    }
    if (auto good = check_block(*below, inner); !good) return good;
  }
  return {};
}

}  // namespace

std::span<const GaneshaBlock> ganesha_blocks() { return kBlocks; }

Result<> check_ganesha_blocks(const ConfBlock& conf) {
  if (!conf.statements.empty()) {
    const ConfStatement& first = conf.statements.front();
    return conf_error(first.place, fmt::format("{} stands in no block", first.name));
  }
  for (const ConfBlock& block : conf.blocks) {
    const GaneshaBlock* const known = find(ganesha_blocks(), block.name);
    if (known == nullptr) {
      return conf_error(block.place,
                        fmt::format("Ganesha has no block {}; the nearest there is: {}", block.name,
                                    nearest_of(ganesha_blocks(), block.name)));
    }
    if (auto good = check_block(*known, block); !good) return good;
  }
  return {};
}

}  // namespace weft::mds
