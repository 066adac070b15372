#include "ganesha-fsal/config/ganesha_blocks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rpc/base/nearest.h"

namespace weft::mds {
namespace {

constexpr std::string_view kFlag[] = {"true", "false", "yes", "no", "on", "off"};
constexpr std::string_view kNumber[] = {"a number"};
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

constexpr std::string_view kFsals[] = {"WEFT", "VFS", "MEM", "NULL", "MDCACHE", "PSEUDO"};

constexpr GaneshaKey kCoreKeys[] = {
    {"HAProxy_Hosts"},
    {"NFS_Port", kNumber},
    {"MNT_Port", kNumber},
    {"NLM_Port", kNumber},
    {"Rquota_Port", kNumber},
    {"NFS_RDMA_Port", kNumber},
    {"NFS_RDMA_Protocol_Versions"},
    {"Bind_Addr"},
    {"NFS_Program", kNumber},
    {"MNT_Program", kNumber},
    {"NLM_Program", kNumber},
    {"Rquota_Program", kNumber},
    {"NFSACL_Program", kNumber},
    {"Drop_IO_Errors", kFlag},
    {"Drop_Inval_Errors", kFlag},
    {"Drop_Delay_Errors", kFlag},
    {"DRC_Disabled", kFlag},
    {"DRC_Recycle_Hiwat", kNumber},
    {"DRC_TCP_Npart", kNumber},
    {"DRC_TCP_Size", kNumber},
    {"DRC_TCP_Cachesz", kNumber},
    {"DRC_TCP_Hiwat", kNumber},
    {"DRC_TCP_Recycle_Npart", kNumber},
    {"DRC_TCP_Recycle_Expire_S", kNumber},
    {"DRC_TCP_Checksum", kFlag},
    {"DRC_UDP_Npart", kNumber},
    {"DRC_UDP_Size", kNumber},
    {"DRC_UDP_Cachesz", kNumber},
    {"DRC_UDP_Hiwat", kNumber},
    {"DRC_UDP_Checksum", kFlag},
    {"RPC_Max_Connections", kNumber},
    {"RPC_Idle_Timeout_S", kNumber},
    {"MaxRPCSendBufferSize", kNumber},
    {"MaxRPCRecvBufferSize", kNumber},
    {"RPC_Max_RDMA_Connections", kNumber},
    {"MaxRPCRdmaCredits", kNumber},
    {"rpc_ioq_thrdmin", kNumber},
    {"RPC_Ioq_ThrdMax", kNumber},
    {"RPC_GSS_Npart", kNumber},
    {"RPC_GSS_Max_Ctx", kNumber},
    {"RPC_GSS_Max_GC", kNumber},
    {"Blocked_Lock_Poller_Interval", kNumber},
    {"NFS_Protocols", kProtocols, true},
    {"Protocols", kProtocols, true},
    {"Clustered", kFlag},
    {"Enable_NLM", kFlag},
    {"Disable_NLM_SHARE", kFlag},
    {"NSM_Use_Caller_Name", kFlag},
    {"Enable_RQUOTA", kFlag},
    {"Enable_NFSACL", kFlag},
    {"Enable_TCP_keepalive", kFlag},
    {"TCP_KEEPCNT", kNumber},
    {"TCP_KEEPIDLE", kNumber},
    {"TCP_KEEPINTVL", kNumber},
    {"Enable_NFS_Stats", kFlag},
    {"Enable_Fast_Stats", kFlag},
    {"Enable_FSAL_Stats", kFlag},
    {"Enable_FULLV3_Stats", kFlag},
    {"Enable_FULLV4_Stats", kFlag},
    {"Enable_AUTH_Stats", kFlag},
    {"Enable_CLNT_AllOps_Stats", kFlag},
    {"Short_File_Handle", kFlag},
    {"Manage_Gids_Expiration", kNumber},
    {"Plugins_Dir"},
    {"heartbeat_freq", kNumber},
    {"fsid_device", kFlag},
    {"resolve_fs_retries", kNumber},
    {"resolve_fs_delay", kNumber},
    {"mount_path_pseudo", kFlag},
    {"Enable_UDP", kUdp},
    {"Dbus_Name_Prefix"},
    {"Max_Uid_To_Group_Reqs", kNumber},
    {"Enable_V3fh_Validation_For_V4", kFlag},
    {"Readdir_Res_Size", kNumber},
    {"Readdir_Max_Count", kNumber},
    {"Getattrs_In_Complete_Read", kFlag},
    {"Enable_malloc_trim", kFlag},
    {"Malloc_trim_MinThreshold", kNumber},
    {"Monitoring_Port", kNumber},
    {"Enable_Dynamic_Metrics", kFlag},
    {"enable_rpc_cred_fallback", kFlag},
    {"Unique_Server_Id", kNumber},
    {"Enable_Connection_Manager", kFlag},
    {"Connection_Manager_Timeout_sec", kNumber},
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
    {"Lease_Lifetime", kNumber},
    {"Grace_Period", kNumber},
    {"Server_Scope"},
    {"Server_Owner"},
    {"DomainName"},
    {"IdmapConf"},
    {"UseGetpwnam", kFlag},
    {"Allow_Numeric_Owners", kFlag},
    {"Only_Numeric_Owners", kFlag},
    {"Delegations", kFlag},
    {"Deleg_Recall_Retry_Delay", kNumber},
    {"PNFS_MDS", kFlag},
    {"PNFS_DS", kFlag},
    {"RecoveryBackend", kRecoveryBackends},
    {"RecoveryRoot"},
    {"RecoveryDir"},
    {"RecoveryOldDir"},
    {"minor_versions", kMinorVersions, true},
    {"slot_table_size", kNumber},
    {"Enforce_UTF8_Validation", kFlag},
    {"Max_Client_Ids", kNumber},
    {"Max_Open_States_Per_Client", kNumber},
    {"Expired_Client_Threshold", kNumber},
    {"Max_Open_Files_For_Expired_Client", kNumber},
    {"Max_Alive_Time_For_Expired_Client", kNumber},
};
constexpr GaneshaKey kMdcacheKeys[] = {
    {"NParts", kNumber},
    {"Cache_Size", kNumber},
    {"Use_Getattr_Directory_Invalidation", kFlag},
    {"Dir_Chunk", kNumber},
    {"Detached_Mult", kNumber},
    {"Entries_HWMark", kNumber},
    {"Entries_Release_Size", kNumber},
    {"Chunks_HWMark", kNumber},
    {"Chunks_LWMark", kNumber},
    {"LRU_Run_Interval", kNumber},
    {"Cache_FDs", kFlag},
    {"Close_Fast", kFlag},
    {"FD_Limit_Percent", kNumber},
    {"FD_HWMark_Percent", kNumber},
    {"FD_LWMark_Percent", kNumber},
    {"Reaper_Work", kNumber},
    {"Reaper_Work_Per_Lane", kNumber},
    {"Biggest_Window", kNumber},
    {"Required_Progress", kNumber},
    {"Futility_Count", kNumber},
    {"Dirmap_HWMark", kNumber},
    {"Files_Delegatable_Percent", kNumber},
    {"Use_Cached_Owner_On_Owner_Override", kFlag},
};
// Who may do what: of an export, of all, or of some clients.
constexpr GaneshaKey kAccessKeys[] = {
    {"Access_Type", kAccess},          {"Protocols", kExportProtocols, true},
    {"Transports", kTransports, true}, {"Anonymous_uid", kNumber},
    {"Anonymous_gid", kNumber},        {"SecType", kSecTypes, true},
    {"PrivilegedPort", kFlag},         {"Manage_Gids", kFlag},
    {"Squash", kSquashes, true},       {"NFS_Commit", kFlag},
    {"Delegations", kDelegations},
};
constexpr GaneshaKey kExportKeys[] = {
    {"Export_id", kNumber},
    {"Path"},
    {"Pseudo"},
    {"MaxRead", kNumber},
    {"MaxWrite", kNumber},
    {"PrefRead", kNumber},
    {"PrefWrite", kNumber},
    {"PrefReaddir", kNumber},
    {"Filesystem_id"},
    {"Read_Access_Check_Policy", kReadChecks, true},
    {"Tag"},
    {"MaxOffsetWrite", kNumber},
    {"MaxOffsetRead", kNumber},
    {"UseCookieVerifier", kFlag},
    {"DisableReaddirPlus", kFlag},
    {"Trust_Readdir_Negative_Cache", kFlag},
    {"Disable_ACL", kFlag},
    {"Security_Label", kFlag},
    {"Attr_Expiration_Time", kNumber},
};
constexpr GaneshaKey kDefaultKeys[] = {
    {"Attr_Expiration_Time", kNumber},
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

// "5", "0x1F", with a sign or not. Whether it is in range Ganesha tells.
bool is_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('~')) text.remove_prefix(1);
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  const std::string_view digits = hex ? "0123456789abcdefABCDEF" : "0123456789";
  return !text.empty() && text.find_first_not_of(digits) == std::string_view::npos;
}

bool is_word(const GaneshaKey& key, const ConfTerm& term) {
  if (term.quoted && (key.words.data() == kFlag || key.words.data() == kNumber)) return false;
  if (key.words.data() == kNumber) return is_number(term.text);
  const auto is = [&term](std::string_view word) { return same_name(term.text, word); };
  return std::ranges::any_of(key.words, is);
}

Result<> check_value(const GaneshaKey& key, const ConfStatement& statement) {
  if (key.words.empty()) return {};
  if (!key.many && statement.terms.size() > 1) {
    return conf_error(statement.place, fmt::format("{} takes one value", key.name));
  }
  for (const ConfTerm& term : statement.terms) {
    if (is_word(key, term)) continue;
    const std::string what = key.words.data() == kFlag ? "must be true or false, without quotes"
                             : key.words.data() == kNumber
                                 ? "must be a number, without quotes or a unit"
                                 : fmt::format(
                                       "is no word that it takes; the nearest there "
                                       "is: {}",
                                       nearest(term.text, key.words));
    return conf_error(statement.place, fmt::format("{} = {}: {}", key.name, term.text, what));
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

// Its only value; empty: it is not said.
std::string_view said(const ConfBlock& block, std::string_view name) {
  const auto found = std::ranges::find_if(
      block.statements, [name](const auto& one) { return same_name(one.name, name); });
  if (found == block.statements.end() || found->terms.size() != 1) return {};
  return found->terms.front().text;
}

constexpr std::string_view kAccessType = "Access_Type";

// Of an EXPORT. Ganesha lets nobody in where neither it nor EXPORT_DEFAULTS says who may.
std::string_view access_of(const ConfBlock& block, const ConfBlock& conf) {
  std::string_view access = said(block, kAccessType);
  for (const ConfBlock& other : conf.blocks) {
    if (access.empty() && same_name(other.name, "EXPORT_DEFAULTS")) {
      access = said(other, kAccessType);
    }
  }
  return access.empty() ? kAccess[0] : access;
}

// It says nothing that an export with this access does not say anyway.
bool is_idle(const ConfBlock& client, std::string_view access) {
  return std::ranges::all_of(client.statements, [access](const ConfStatement& one) {
    return same_name(one.name, "Clients") ||
           (same_name(one.name, kAccessType) && one.terms.size() == 1 &&
            same_name(one.terms.front().text, access));
  });
}

}  // namespace

std::vector<std::string> idle_client_blocks(const ConfBlock& conf) {
  std::vector<std::string> found;
  for (const ConfBlock& block : conf.blocks) {
    if (!same_name(block.name, "EXPORT") && !same_name(block.name, "EXPORT_DEFAULTS")) continue;
    const std::string_view access = access_of(block, conf);
    if (same_name(access, kAccess[0])) continue;
    std::vector<const ConfBlock*> idle;
    for (const ConfBlock& client : block.blocks) {
      if (!same_name(client.name, "CLIENT")) continue;
      idle.push_back(&client);
      // The first block that has an address decides: those before this one keep it away from it.
      if (!is_idle(client, access)) idle.clear();
    }
    for (const ConfBlock* const client : idle) {
      found.push_back(
          conf_error(client->place,
                     fmt::format("CLIENT has no effect: with Access_Type = {} the {} lets every "
                                 "address mount. Where only some may, Access_Type = None stands in "
                                 "the {}, and Access_Type = {} in the CLIENT block",
                                 access, block.name, block.name, access))
              .error()
              .text);
    }
  }
  return found;
}

Result<> check_fsal_name(const ConfBlock& fsal) {
  const auto name = std::ranges::find_if(
      fsal.statements, [](const auto& one) { return same_name(one.name, "Name"); });
  if (name == fsal.statements.end() || name->terms.size() != 1) {
    return conf_error(fsal.place, "Name is not set, in the FSAL block");
  }
  const std::string& text = name->terms.front().text;
  const auto is = [&text](std::string_view one) { return same_name(text, one); };
  if (std::ranges::any_of(kFsals, is)) return {};
  return conf_error(name->place, fmt::format("Ganesha has no FSAL {}; the nearest there is: {}",
                                             text, nearest(text, kFsals)));
}

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
