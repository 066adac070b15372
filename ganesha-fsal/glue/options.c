/* The option table of an export's FSAL block; docs/man/fsal-weft.8.scd explains each. */
#include "ganesha-fsal/glue/options.h"

#include "abstract_mem.h"
#include "config.h"
#include "config_parsing.h"
#include "fsal_api.h"

static struct config_item_list layout_kinds[] = {
    CONFIG_LIST_TOK("files", WEFT_LAYOUT_FILES),
    CONFIG_LIST_TOK("flexfiles", WEFT_LAYOUT_FLEXFILES), CONFIG_LIST_EOL};

static struct config_item_list duplications[] = {
    CONFIG_LIST_TOK("server-async", WEFT_SERVER_ASYNC),
    CONFIG_LIST_TOK("server-sync", WEFT_SERVER_SYNC),
    CONFIG_LIST_TOK("client-async", WEFT_CLIENT_ASYNC),
    CONFIG_LIST_TOK("client-sync", WEFT_CLIENT_SYNC), CONFIG_LIST_EOL};

static struct config_item_list reads[] = {CONFIG_LIST_TOK("one", WEFT_READ_ONE),
                                          CONFIG_LIST_TOK("all", WEFT_READ_ALL), CONFIG_LIST_EOL};

static struct config_item items[] = {
    CONF_ITEM_NOOP("name"),
    CONF_MAND_STR("Metadata_Path", 1, MAXPATHLEN, NULL, weft_options, metadata_path),
    CONF_ITEM_STR("Control_Address", 0, MAXNAMLEN, "127.0.0.1:20480", weft_options,
                  control_address),
    CONF_ITEM_STR("Key_File", 0, MAXPATHLEN, NULL, weft_options, key_file),
    CONF_ITEM_STR("Admin_Socket", 0, 100, NULL, weft_options, admin_socket),
    CONF_ITEM_STR("Metrics_Address", 0, MAXNAMLEN, NULL, weft_options, metrics_address),
    CONF_ITEM_TOKEN("Layout_Type", WEFT_LAYOUT_FILES, layout_kinds, weft_options, layout_kind),
    CONF_ITEM_UI32("Stripe_Unit", 64, 1U << 30, 1U << 20, weft_options, stripe_unit),
    CONF_ITEM_UI32("Stripe_Count", 0, 256, 0, weft_options, stripe_count),
    CONF_ITEM_UI32("Copies", 1, 3, 1, weft_options, copies),
    CONF_ITEM_TOKEN("Duplication", WEFT_DUPLICATION_DEFAULT, duplications, weft_options,
                    duplication),
    CONF_ITEM_TOKEN("Reads", WEFT_READ_ALL, reads, weft_options, reads),
    CONF_ITEM_BOOL("PNFS", true, weft_options, pnfs),
    CONF_ITEM_BOOL("Sync_Metadata", true, weft_options, sync_metadata),
    CONF_ITEM_UI32("Metadata_Timeout", 5, 3600, 60, weft_options, metadata_timeout),
    CONF_ITEM_UI32("Recall_Timeout", 0, 3600, 0, weft_options, recall_timeout),
    CONF_ITEM_UI32("Kept_Layouts", 0, 1024, 64, weft_options, kept_layouts),
    CONF_ITEM_BOOL("By_Load", true, weft_options, by_load),
    CONF_ITEM_UI32("Data_Server_Lease", 5, 3600, 60, weft_options, data_server_lease),
    CONF_ITEM_UI32("Proxy_Memory", 16, 65536, 256, weft_options, proxy_memory),
    CONF_ITEM_UI32("Proxy_Timeout", 1, 600, 30, weft_options, proxy_timeout),
    CONF_ITEM_BOOL("Shared_Memory", true, weft_options, shared_memory),
    CONF_ITEM_UI32("Resync_Rate", 0, 1U << 20, 100, weft_options, resync_rate),
    CONF_ITEM_UI32("Replace_After", 0, 30U * 86400, 1800, weft_options, replace_after),
    CONF_ITEM_UI32("Scrub_Every", 0, 366U * 86400, 7U * 86400, weft_options, scrub_every),
    CONFIG_EOL};

static struct config_block block = {.dbus_interface_name = "org.ganesha.nfsd.config.fsal.weft%d",
                                    .blk_desc.name = "FSAL",
                                    .blk_desc.type = CONFIG_BLOCK,
                                    .blk_desc.u.blk.init = noop_conf_init,
                                    .blk_desc.u.blk.params = items,
                                    .blk_desc.u.blk.commit = noop_conf_commit};

int weft_options_load(void* parse_node, struct weft_options* options, void* err_type) {
  return load_config_from_node(parse_node, &block, options, true,
                               (struct config_error_type*)err_type);
}

void weft_options_free(struct weft_options* options) {
  gsh_free(options->metadata_path);
  gsh_free(options->control_address);
  gsh_free(options->key_file);
  gsh_free(options->admin_socket);
  gsh_free(options->metrics_address);
}
