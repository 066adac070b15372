#include "ganesha-fsal/config/ganesha_tables.h"

#include <cstdint>
#include <limits>

namespace weft::mds {
namespace {

constexpr std::uint64_t kMost16 = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMost64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMostSigned64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeastSigned32 = std::numeric_limits<std::int32_t>::min();
constexpr std::uint64_t kMostSigned32 = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kMostIo = 64 << 20;  // FSAL_MAXIOSIZE

using Words = std::span<const std::string_view>;

constexpr GaneshaKey text(std::string_view name) { return {.name = name}; }
constexpr GaneshaKey flag(std::string_view name) {
  return {.name = name, .takes = GaneshaValue::kFlag};
}
constexpr GaneshaKey number(std::string_view name, std::int64_t least, std::uint64_t most) {
  return {.name = name, .takes = GaneshaValue::kNumber, .least = least, .most = most};
}
constexpr GaneshaKey seconds(std::string_view name, std::int64_t least, std::uint64_t most) {
  return {.name = name, .takes = GaneshaValue::kSeconds, .least = least, .most = most};
}
constexpr GaneshaKey word(std::string_view name, Words known) {
  return {.name = name, .takes = GaneshaValue::kWord, .words = known};
}
constexpr GaneshaKey words(std::string_view name, Words known) {
  return {.name = name, .takes = GaneshaValue::kWords, .words = known};
}
constexpr GaneshaKey clients(std::string_view name) {
  return {.name = name, .takes = GaneshaValue::kClients};
}

constexpr std::string_view kAccess[] = {"NONE", "RW", "RO", "MDONLY", "MDONLY_RO"};
constexpr std::string_view kExportProtocols[] = {"3",  "4",     "NFS3",  "NFS4", "V3",
                                                 "V4", "NFSV3", "NFSV4", "9P"};
constexpr std::string_view kProtocols[] = {"none", "3",  "v3",   "nfs3", "nfsv3",
                                           "4",    "v4", "nfs4", "nfsv4"};
constexpr std::string_view kTransports[] = {"UDP", "TCP"};
constexpr std::string_view kSecTypes[] = {"none", "sys", "krb5", "krb5i", "krb5p"};
constexpr std::string_view kSquashes[] = {
    "Root",           "Root_Squash",  "RootSquash",     "All",  "All_Squash", "AllSquash",
    "All_Anonymous",  "AllAnonymous", "No_Root_Squash", "None", "NoIdSquash", "RootId",
    "Root_Id_Squash", "RootIdSquash"};
constexpr std::string_view kDelegations[] = {"NONE", "Read", "Write", "Readwrite", "R", "W", "RW"};
constexpr std::string_view kReadChecks[] = {"pre", "post", "all"};
constexpr std::string_view kUdp[] = {"false", "no", "off", "true", "yes", "on", "mount"};
constexpr std::string_view kRecoveryBackends[] = {"fs", "fs_ng"};
constexpr std::string_view kMinorVersions[] = {"0", "1", "2"};

constexpr std::string_view kPrincipals[] = {"none", "nfs", "root", "host", "all"};
constexpr std::string_view kLogLevels[] = {"NULL",      "FATAL", "MAJ",        "CRIT",
                                           "WARN",      "EVENT", "INFO",       "DEBUG",
                                           "MID_DEBUG", "M_DBG", "FULL_DEBUG", "F_DBG"};
constexpr std::string_view kHeaders[] = {"none", "component", "all"};
constexpr std::string_view kEnabled[] = {"idle", "active", "default"};
constexpr std::string_view kTimes[] = {"ganesha",     "true",     "local", "8601",
                                       "ISO-8601",    "ISO 8601", "ISO",   "syslog",
                                       "syslog_usec", "false",    "none",  "user_defined"};

constexpr GaneshaKey kCoreKeys[] = {
    clients("HAProxy_Hosts"),
    number("NFS_Port", 0, kMost16),
    number("MNT_Port", 0, kMost16),
    number("NLM_Port", 0, kMost16),
    number("Rquota_Port", 0, kMost16),
    text("Bind_Addr"),
    number("NFS_Program", 1, kMostSigned32),
    number("MNT_Program", 1, kMostSigned32),
    number("NLM_Program", 1, kMostSigned32),
    number("Rquota_Program", 1, kMostSigned32),
    flag("Drop_IO_Errors"),
    flag("Drop_Inval_Errors"),
    flag("Drop_Delay_Errors"),
    flag("DRC_Disabled"),
    number("DRC_Recycle_Hiwat", 1, 1000000),
    number("DRC_TCP_Npart", 1, 20),
    number("DRC_TCP_Size", 1, 32767),
    number("DRC_TCP_Cachesz", 1, 255),
    number("DRC_TCP_Hiwat", 1, 256),
    number("DRC_TCP_Recycle_Npart", 1, 20),
    seconds("DRC_TCP_Recycle_Expire_S", 0, 60 * 60),
    flag("DRC_TCP_Checksum"),
    number("DRC_UDP_Npart", 1, 100),
    number("DRC_UDP_Size", 512, 32768),
    number("DRC_UDP_Cachesz", 1, 2047),
    number("DRC_UDP_Hiwat", 1, 32768),
    flag("DRC_UDP_Checksum"),
    number("RPC_Max_Connections", 1, 1000000),
    seconds("RPC_Idle_Timeout_S", 0, 60 * 60),
    number("MaxRPCSendBufferSize", 1, 1048576 * 9),
    number("MaxRPCRecvBufferSize", 1, 1048576 * 9),
    number("rpc_ioq_thrdmin", 2, 1024 * 128),
    number("RPC_Ioq_ThrdMax", 2, 1024 * 128),
    number("RPC_GSS_Npart", 1, 1021),
    number("RPC_GSS_Max_Ctx", 1, 1024 * 1024),
    number("RPC_GSS_Max_GC", 1, 1024 * 1024),
    seconds("Blocked_Lock_Poller_Interval", 0, 180),
    words("NFS_Protocols", kProtocols),
    words("Protocols", kProtocols),
    flag("Clustered"),
    flag("Enable_NLM"),
    flag("Disable_NLM_SHARE"),
    flag("NSM_Use_Caller_Name"),
    flag("Enable_RQUOTA"),
    flag("Enable_TCP_keepalive"),
    number("TCP_KEEPCNT", 0, 255),
    number("TCP_KEEPIDLE", 0, 65535),
    number("TCP_KEEPINTVL", 0, 65535),
    flag("Enable_NFS_Stats"),
    flag("Enable_Fast_Stats"),
    flag("Enable_FSAL_Stats"),
    flag("Enable_FULLV3_Stats"),
    flag("Enable_FULLV4_Stats"),
    flag("Enable_AUTH_Stats"),
    flag("Enable_CLNT_AllOps_Stats"),
    flag("Short_File_Handle"),
    seconds("Manage_Gids_Expiration", 0, 7 * 24 * 60 * 60),
    text("Plugins_Dir"),
    number("heartbeat_freq", 0, 5000),
    flag("fsid_device"),
    number("resolve_fs_retries", 1, 1000),
    number("resolve_fs_delay", 1, 1000),
    flag("mount_path_pseudo"),
    word("Enable_UDP", kUdp),
    text("Dbus_Name_Prefix"),
    number("Max_Uid_To_Group_Reqs", 0, kMostSigned32),
    flag("Enable_V3fh_Validation_For_V4"),
    number("Readdir_Res_Size", 4096, kMostIo),
    number("Readdir_Max_Count", 32, 1024 * 1024),
    flag("Getattrs_In_Complete_Read"),
    flag("Enable_malloc_trim"),
    number("Malloc_trim_MinThreshold", 1, kMostSigned32),
    flag("enable_rpc_cred_fallback"),
    number("Unique_Server_Id", 0, kMost32),
    flag("Enable_Connection_Manager"),
    seconds("Connection_Manager_Timeout_sec", 0, kMost32),
    flag("Allow_Set_Io_Flusher_Fail"),
};
constexpr GaneshaKey kKrb5Keys[] = {
    text("PrincipalName"),
    text("KeytabPath"),
    text("CCacheDir"),
    flag("Active_krb5"),
};
constexpr GaneshaKey kDirectoryKeys[] = {
    text("DomainName"),
    flag("Idmapping_Active"),
    seconds("Idmapped_User_Time_Validity", -1, kMostSigned64),
    seconds("Idmapped_Group_Time_Validity", -1, kMostSigned64),
    words("Root_Kerberos_Principal", kPrincipals),
    number("Cache_Users_Max_Count", 0, kMostSigned32),
    number("Cache_Groups_Max_Count", 0, kMostSigned32),
    number("Cache_User_Groups_Max_Count", 0, kMostSigned32),
    seconds("Negative_Cache_Time_Validity", 0, kMostSigned64),
    number("Negative_Cache_Users_Max_Count", 0, kMostSigned32),
    number("Negative_Cache_Groups_Max_Count", 0, kMostSigned32),
    seconds("Cache_Reaping_Interval", 0, 3650 * 86400),
    flag("Pwutils_Use_Fully_Qualified_Names"),
};
constexpr GaneshaKey kIpNameKeys[] = {
    number("Index_Size", 1, 51),
    seconds("Expiration_Time", 1, 60 * 60 * 24),
};
constexpr GaneshaKey kNfs4Keys[] = {
    flag("Sticky_Grace"),
    flag("Graceless"),
    seconds("Lease_Lifetime", 1, 180),
    seconds("Grace_Period", 0, 270),
    text("Server_Scope"),
    text("Server_Owner"),
    text("DomainName"),
    text("IdmapConf"),
    flag("UseGetpwnam"),
    flag("Allow_Numeric_Owners"),
    flag("Only_Numeric_Owners"),
    flag("Delegations"),
    seconds("Deleg_Recall_Retry_Delay", 0, 10),
    flag("PNFS_MDS"),
    flag("PNFS_DS"),
    word("RecoveryBackend", kRecoveryBackends),
    text("RecoveryRoot"),
    text("RecoveryDir"),
    text("RecoveryOldDir"),
    words("minor_versions", kMinorVersions),
    number("slot_table_size", 1, 1024),
    flag("Enforce_UTF8_Validation"),
    number("Max_Client_Ids", 0, kMost32),
    number("Max_Sessions", 0, kMost32),
    number("Max_Open_States_Per_Client", 0, kMost32),
    number("Expired_Client_Threshold", 0, 0),
    number("Max_Open_Files_For_Expired_Client", 0, kMost32),
    seconds("Max_Alive_Time_For_Expired_Client", 0, kMost64),
};
constexpr GaneshaKey kMdcacheKeys[] = {
    number("NParts", 1, 32633),
    number("Cache_Size", 1, kMost32),
    flag("Use_Getattr_Directory_Invalidation"),
    number("Dir_Chunk", 1, kMost32),
    number("Detached_Mult", 1, kMost32),
    number("Entries_HWMark", 1, kMost32),
    number("Entries_Release_Size", 0, kMost32),
    number("Chunks_HWMark", 1, kMost32),
    number("Chunks_LWMark", 1, kMost32),
    seconds("LRU_Run_Interval", 1, 24 * 3600),
    flag("Cache_FDs"),
    flag("Close_Fast"),
    number("FD_Limit_Percent", 0, 100),
    number("FD_HWMark_Percent", 0, 100),
    number("FD_LWMark_Percent", 0, 100),
    number("Reaper_Work", 1, 2000),
    number("Reaper_Work_Per_Lane", 1, kMost32),
    number("Biggest_Window", 1, 100),
    number("Required_Progress", 1, 50),
    number("Futility_Count", 1, 50),
    number("Dirmap_HWMark", 1, kMost32),
    number("Files_Delegatable_Percent", 10, kMostSigned32),
    flag("Use_Cached_Owner_On_Owner_Override"),
};
// Who may do what: of an export, of all, or of some clients.
constexpr GaneshaKey kAccessKeys[] = {
    word("Access_Type", kAccess),
    words("Protocols", kExportProtocols),
    words("Transports", kTransports),
    number("Anonymous_uid", kLeastSigned32, kMost32),
    number("Anonymous_gid", kLeastSigned32, kMost32),
    words("SecType", kSecTypes),
    flag("PrivilegedPort"),
    flag("Manage_Gids"),
    words("Squash", kSquashes),
    flag("NFS_Commit"),
    word("Delegations", kDelegations),
};
constexpr GaneshaKey kExportKeys[] = {
    number("Export_id", 0, kMost16),
    text("Path"),
    text("Pseudo"),
    number("MaxRead", 512, kMostIo),
    number("MaxWrite", 512, kMostIo),
    number("PrefRead", 512, kMostIo),
    number("PrefWrite", 512, kMostIo),
    number("PrefReaddir", 512, kMostIo),
    text("Filesystem_id"),
    words("Read_Access_Check_Policy", kReadChecks),
    text("Tag"),
    number("MaxOffsetWrite", 512, kMost64),
    number("MaxOffsetRead", 512, kMost64),
    flag("UseCookieVerifier"),
    flag("DisableReaddirPlus"),
    flag("Trust_Readdir_Negative_Cache"),
    flag("Disable_ACL"),
    flag("Security_Label"),
    seconds("Attr_Expiration_Time", -1, kMostSigned32),
};
constexpr GaneshaKey kDefaultKeys[] = {
    seconds("Attr_Expiration_Time", -1, kMostSigned32),
};
constexpr GaneshaKey kClientKeys[] = {
    clients("Clients"),
};

constexpr GaneshaKey kPseudoKeys[] = {
    number("Export_id", 0, kMost16), number("PrefReaddir", 512, kMostIo),
    text("Filesystem_id"),           flag("UseCookieVerifier"),
    flag("DisableReaddirPlus"),      flag("Trust_Readdir_Negative_Cache"),
};
constexpr GaneshaKey kPseudoAccessKeys[] = {
    word("Access_Type", kAccess),
    words("Transports", kTransports),
    words("SecType", kSecTypes),
    flag("PrivilegedPort"),
};
constexpr GaneshaKey kDsKeys[] = {
    number("Number", 0, kMost16),
};
constexpr GaneshaKey kLogKeys[] = {
    word("Default_Log_Level", kLogLevels),
    number("RPC_Debug_Flags", 0, kMost32),
    flag("Display_UTC_Timestamp"),
};
constexpr GaneshaKey kComponentKeys[] = {
    word("ALL", kLogLevels),
    word("LOG", kLogLevels),
    word("MEM_ALLOC", kLogLevels),
    word("MEMLEAKS", kLogLevels),
    word("LEAKS", kLogLevels),
    word("FSAL", kLogLevels),
    word("NFSPROTO", kLogLevels),
    word("NFS3", kLogLevels),
    word("NFS_V4", kLogLevels),
    word("NFS4", kLogLevels),
    word("EXPORT", kLogLevels),
    word("FILEHANDLE", kLogLevels),
    word("FH", kLogLevels),
    word("DISPATCH", kLogLevels),
    word("DISP", kLogLevels),
    word("CACHE_INODE", kLogLevels),
    word("INODE", kLogLevels),
    word("MDCACHE", kLogLevels),
    word("CACHE_INODE_LRU", kLogLevels),
    word("INODE_LRU", kLogLevels),
    word("MDCACHE_LRU", kLogLevels),
    word("HASHTABLE", kLogLevels),
    word("HT", kLogLevels),
    word("HASHTABLE_CACHE", kLogLevels),
    word("HT_CACHE", kLogLevels),
    word("DUPREQ", kLogLevels),
    word("INIT", kLogLevels),
    word("NFS_STARTUP", kLogLevels),
    word("MAIN", kLogLevels),
    word("IDMAPPER", kLogLevels),
    word("NFS_READDIR", kLogLevels),
    word("NFS_V4_LOCK", kLogLevels),
    word("NFS4_LOCK", kLogLevels),
    word("CONFIG", kLogLevels),
    word("CLIENTID", kLogLevels),
    word("SESSIONS", kLogLevels),
    word("PNFS", kLogLevels),
    word("RW_LOCK", kLogLevels),
    word("NLM", kLogLevels),
    word("TIRPC", kLogLevels),
    word("NFS_CB", kLogLevels),
    word("THREAD", kLogLevels),
    word("NFS_V4_ACL", kLogLevels),
    word("NFS4_ACL", kLogLevels),
    word("STATE", kLogLevels),
    word("_9P", kLogLevels),
    word("_9P_DISPATCH", kLogLevels),
    word("_9P_DISP", kLogLevels),
    word("FSAL_UP", kLogLevels),
    word("DBUS", kLogLevels),
    word("NFS_MSK", kLogLevels),
    word("XPRT", kLogLevels),
};
constexpr GaneshaKey kFacilityKeys[] = {
    text("name"),
    text("destination"),
    word("max_level", kLogLevels),
    word("headers", kHeaders),
    word("enable", kEnabled),
};
constexpr GaneshaKey kFormatKeys[] = {
    word("date_format", kTimes),
    word("time_format", kTimes),
    text("user_date_format"),
    text("user_time_format"),
    flag("EPOCH"),
    flag("CLIENTIP"),
    flag("HOSTNAME"),
    flag("PROGNAME"),
    flag("PID"),
    flag("THREAD_NAME"),
    flag("FILE_NAME"),
    flag("LINE_NUM"),
    flag("FUNCTION_NAME"),
    flag("COMPONENT"),
    flag("LEVEL"),
    flag("OP_ID"),
    flag("CLIENT_REQ_XID"),
};

constexpr std::string_view kRequiredOfExport[] = {"Export_id", "Path"};
constexpr std::string_view kRequiredOfClient[] = {"Clients"};
constexpr std::string_view kRequiredOfFacility[] = {"name", "destination"};

constexpr GaneshaBlock kClient{"CLIENT", kClientKeys, {}, kAccessKeys, kRequiredOfClient, true};
constexpr GaneshaBlock kInExport[] = {kClient, {"FSAL"}};
constexpr GaneshaBlock kInDefaults[] = {kClient};
constexpr GaneshaBlock kInPseudo[] = {
    {"CLIENT", kClientKeys, {}, kPseudoAccessKeys, kRequiredOfClient, true}};
constexpr GaneshaBlock kInDs[] = {{"FSAL"}};
constexpr GaneshaBlock kInLog[] = {
    {"FACILITY", kFacilityKeys, {}, {}, kRequiredOfFacility, true},
    {"FORMAT", kFormatKeys},
    {"COMPONENTS", kComponentKeys},
};

constexpr GaneshaBlock kBlocks[] = {
    {"NFS_CORE_PARAM", kCoreKeys},
    {"NFS_KRB5", kKrb5Keys},
    {"NFSv4", kNfs4Keys},
    {"MDCACHE", kMdcacheKeys},
    {"CacheInode", kMdcacheKeys},
    {"EXPORT", kExportKeys, kInExport, kAccessKeys, kRequiredOfExport, true},
    {"EXPORT_DEFAULTS", kDefaultKeys, kInDefaults, kAccessKeys},
    {"PSEUDOFS", kPseudoKeys, kInPseudo, kPseudoAccessKeys},
    {"DS", kDsKeys, kInDs, {}, {}, true},
    {"LOG", kLogKeys, kInLog},
    {"DIRECTORY_SERVICES", kDirectoryKeys},
    {"NFS_IP_Name", kIpNameKeys},
    {"FSAL_LIST"},
    // Of other FSALs.
    {"VFS"},
    {"MEM"},
};

}  // namespace

std::span<const GaneshaBlock> ganesha_blocks() { return kBlocks; }

}  // namespace weft::mds
