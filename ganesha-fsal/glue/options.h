/* What an export's FSAL block says, as Ganesha's parser fills it in. C, since the tables of
 * options.c are: Ganesha's macros for them are not C++. Strings are Ganesha's (gsh_malloc) and
 * belong to the struct until weft_options_free().
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
  WEFT_CLIENT_ASYNC = 3,
  WEFT_CLIENT_SYNC = 4
};
enum weft_reads { WEFT_READ_ONE = 0, WEFT_READ_ALL = 1 };

struct weft_options {
  char* metadata_path;        /* folder of the metadata store */
  char* control_address;      /* where data servers reach us: host:port */
  char* key_file;             /* the cluster key */
  char* admin_socket;         /* Unix socket of the command line; "" for none */
  char* metrics_address;      /* where Prometheus scrapes: host:port; "" for nowhere */
  uint32_t layout_kind;       /* enum weft_layout_kind */
  uint32_t stripe_unit;       /* bytes */
  uint32_t stripe_count;      /* data servers for a file; 0: all */
  uint32_t copies;            /* of each file */
  uint32_t duplication;       /* enum weft_duplication */
  uint32_t reads;             /* enum weft_reads */
  bool pnfs;                  /* grant layouts */
  bool sync_metadata;         /* a commit survives the machine's death, not only ours */
  uint32_t metadata_timeout;  /* seconds a commit may take before we end */
  uint32_t recall_timeout;    /* seconds; 0: one lease */
  uint32_t kept_layouts;      /* that a client keeps of files it has closed, at most */
  bool by_load;               /* data servers' loads count when they are chosen */
  uint32_t data_server_lease; /* seconds a data server serves without being in touch */
  uint32_t proxy_memory;      /* MiB of data in flight through this server */
  uint32_t proxy_timeout;     /* seconds for one exchange with a data server */
  bool shared_memory;         /* with data servers on this machine, for what goes through us */
  uint32_t resync_rate;       /* MiB a second that a data server mends copies with; 0: any */
  uint32_t replace_after;     /* seconds gone until a data server's copies are made elsewhere */
  uint32_t scrub_every;       /* seconds between scrubs of all files; 0: never */
};

/* Reads the block at parse_node. 0, or an errno; err_type then has the details for Ganesha's log.
 */
int weft_options_load(void* parse_node, struct weft_options* options, void* err_type);
void weft_options_free(struct weft_options* options);

#ifdef __cplusplus
}
#endif
