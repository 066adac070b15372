/* What an export's FSAL block says, as Ganesha's parser fills it in. C, since the tables of
 * glue/load_options.c are: Ganesha's macros for them are not C++. Strings are Ganesha's
 * (gsh_malloc) and belong to the struct until weft_options_free().
 *
 * Ganesha's table and the check of a file (options_check.h) are both made of WEFT_OPTIONS, so
 * neither knows an option or a range that the other does not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum weft_layout_kind { WEFT_LAYOUT_FILES = 1, WEFT_LAYOUT_FLEXFILES = 4 };
/* As layout::Duplication and layout::ReadPolicy; by default as the layout type has it. */
enum weft_duplication {
  WEFT_DUPLICATION_DEFAULT = 0,
  WEFT_SERVER_ASYNC = 1,
  WEFT_SERVER_SYNC = 2,
  WEFT_CLIENT_SYNC = 4
};
enum weft_reads { WEFT_READ_ONE = 0, WEFT_READ_ALL = 1 };

struct weft_options {
  char* metadata_path;        /* folder of the metadata store */
  char* control_address;      /* where data servers reach us: host:port */
  char* key_file;             /* the cluster key */
  char* admin_socket;         /* Unix socket of the command line; "" for none */
  char* metrics_address;      /* where Prometheus scrapes: host:port; "" for nowhere */
  char* status_address;       /* of the page for browsers: host:port; "" for nowhere */
  uint32_t layout_kind;       /* enum weft_layout_kind */
  uint32_t stripe_unit;       /* bytes */
  uint32_t stripe_count;      /* data servers for a file; 0: all */
  uint32_t copies;            /* of each file */
  uint32_t duplication;       /* enum weft_duplication */
  uint32_t reads;             /* enum weft_reads */
  uint32_t inline_bytes;      /* that a file in the metadata store has at most; 0: none is */
  bool pnfs;                  /* grant layouts */
  bool sync_metadata;         /* a commit survives the machine's death, not only ours */
  uint32_t metadata_cache;    /* MiB of the metadata store's tables in memory */
  uint32_t metadata_buffer;   /* MiB of it in memory until they are written to a table */
  uint32_t metadata_timeout;  /* seconds a commit may take before we end */
  uint32_t recall_timeout;    /* seconds; 0: one lease */
  uint32_t kept_layouts;      /* that a client keeps of files it has closed, at most */
  bool shared_root;           /* of a store that is made here: everybody may make names in "/" */
  bool by_load;               /* data servers' loads count when they are chosen */
  uint32_t data_server_lease; /* seconds a data server serves without being in touch */
  uint32_t proxy_memory;      /* MiB of data in flight through this server */
  uint32_t proxy_timeout;     /* seconds for one exchange with a data server */
  bool shared_memory;         /* with data servers on this machine, for what goes through us */
  bool rdma;                  /* to other data servers that have it, for the same */
  uint32_t resync_rate;       /* MiB a second that a data server mends copies with; 0: any */
  uint32_t replace_after;     /* seconds gone until a data server's copies are made elsewhere */
  uint32_t scrub_every;       /* seconds between scrubs of all files; 0: never */
};

/* Words of a list: WORD(text, value). */
#define WEFT_LAYOUT_KINDS(WORD) \
  WORD("files", WEFT_LAYOUT_FILES) WORD("flexfiles", WEFT_LAYOUT_FLEXFILES)
#define WEFT_DUPLICATIONS(WORD)           \
  WORD("server-async", WEFT_SERVER_ASYNC) \
  WORD("server-sync", WEFT_SERVER_SYNC)   \
  WORD("client-sync", WEFT_CLIENT_SYNC)
#define WEFT_READS(WORD) WORD("one", WEFT_READ_ONE) WORD("all", WEFT_READ_ALL)

/* Every option, by the kind of its value; docs/man/fsal-weft.8.scd explains each.
 *   TEXT(name, least, most, default, field)     a string of so many bytes
 *   NUMBER(name, least, most, default, field)   a uint32_t
 *   SECONDS(name, least, most, default, field)  the same; text like "5 min", too
 *   SIZE(name, one, least, most, default, field)  a uint32_t that counts so many bytes; text like
 *                                               "64 MiB", too
 *   FLAG(name, default, field)                  a bool
 *   CHOICE(name, words, default, field)         one of a list of words; a uint32_t
 */
#define WEFT_OPTIONS(TEXT, NUMBER, SECONDS, SIZE, FLAG, CHOICE)              \
  TEXT("Metadata_Path", 0, 4096, NULL, metadata_path)                        \
  TEXT("Control_Address", 0, 255, "127.0.0.1:20480", control_address)        \
  TEXT("Key_File", 0, 4096, NULL, key_file)                                  \
  TEXT("Admin_Socket", 0, 100, NULL, admin_socket)                           \
  TEXT("Metrics_Address", 0, 255, NULL, metrics_address)                     \
  TEXT("Status_Address", 0, 255, NULL, status_address)                       \
  CHOICE("Layout_Type", layout_kinds, WEFT_LAYOUT_FILES, layout_kind)        \
  SIZE("Stripe_Unit", 1, 64, 1U << 30, 1U << 20, stripe_unit)                \
  NUMBER("Stripe_Count", 0, 58, 0, stripe_count) /* kMaxLayoutServers */     \
  NUMBER("Copies", 1, 3, 1, copies)                                          \
  CHOICE("Duplication", duplications, WEFT_DUPLICATION_DEFAULT, duplication) \
  CHOICE("Reads", reads, WEFT_READ_ALL, reads)                               \
  SIZE("Inline", 1, 0, 1U << 20, 16U << 10, inline_bytes)                    \
  FLAG("PNFS", true, pnfs)                                                   \
  FLAG("Shared_Root", false, shared_root)                                    \
  FLAG("Sync_Metadata", true, sync_metadata)                                 \
  SIZE("Metadata_Cache", 1U << 20, 8, 1U << 20, 256, metadata_cache)         \
  SIZE("Metadata_Write_Buffer", 1U << 20, 1, 1024, 42, metadata_buffer)      \
  SECONDS("Metadata_Timeout", 5, 3600, 60, metadata_timeout)                 \
  SECONDS("Recall_Timeout", 0, 3600, 0, recall_timeout)                      \
  NUMBER("Kept_Layouts", 0, 1024, 64, kept_layouts)                          \
  FLAG("By_Load", true, by_load)                                             \
  SECONDS("Data_Server_Lease", 5, 3600, 60, data_server_lease)               \
  SIZE("Proxy_Memory", 1U << 20, 16, 65536, 256, proxy_memory)               \
  SECONDS("Proxy_Timeout", 1, 600, 30, proxy_timeout)                        \
  FLAG("Shared_Memory", true, shared_memory)                                 \
  FLAG("RDMA", true, rdma)                                                   \
  SIZE("Resync_Rate", 1U << 20, 0, 1U << 20, 100, resync_rate)               \
  SECONDS("Replace_After", 0, 30U * 86400, 1800, replace_after)              \
  SECONDS("Scrub_Every", 0, 366U * 86400, 7U * 86400, scrub_every)

enum weft_amount { WEFT_SECONDS, WEFT_BYTES };
/* What a SECONDS or SIZE option says: a number counts `one` each, a text has its unit. False, and
 * `into` untouched, unless it is a whole number of `one` from least to most. */
bool weft_parse_amount(const char* text, enum weft_amount kind, uint32_t one, uint32_t least,
                       uint32_t most, uint32_t* into);

#ifdef __cplusplus
}
#endif
