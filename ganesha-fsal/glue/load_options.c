/* Ganesha's table of the options of an export's FSAL block. */
#include "ganesha-fsal/glue/load_options.h"

#include <errno.h>

#include "abstract_mem.h"
#include "config.h"
#include "config_parsing.h"
#include "fsal_api.h"

#define WORD(text, value) CONFIG_LIST_TOK(text, value),
static struct config_item_list layout_kinds[] = {WEFT_LAYOUT_KINDS(WORD) CONFIG_LIST_EOL};
static struct config_item_list duplications[] = {WEFT_DUPLICATIONS(WORD) CONFIG_LIST_EOL};
static struct config_item_list reads[] = {WEFT_READS(WORD) CONFIG_LIST_EOL};

#define TEXT(name, least, most, by_default, field) \
  CONF_ITEM_STR(name, least, most, by_default, weft_options, field),
#define NUMBER(name, least, most, by_default, field) \
  CONF_ITEM_UI32(name, least, most, by_default, weft_options, field),
#define FLAG(name, by_default, field) CONF_ITEM_BOOL(name, by_default, weft_options, field),
#define CHOICE(name, words, by_default, field) \
  CONF_ITEM_TOKEN(name, by_default, words, weft_options, field),
static struct config_item items[] = {CONF_ITEM_NOOP("name"),
                                     WEFT_OPTIONS(TEXT, NUMBER, FLAG, CHOICE) CONFIG_EOL};

static struct config_block block = {.dbus_interface_name = "org.ganesha.nfsd.config.fsal.weft%d",
                                    .blk_desc.name = "FSAL",
                                    .blk_desc.type = CONFIG_BLOCK,
                                    .blk_desc.u.blk.init = noop_conf_init,
                                    .blk_desc.u.blk.params = items,
                                    .blk_desc.u.blk.commit = noop_conf_commit};

int weft_options_load(void* parse_node, struct weft_options* options, void* err_type) {
  struct config_error_type* all = err_type;
  struct config_error_type ours = {.fp = all->fp};
  int result = load_config_from_node(parse_node, &block, options, true, &ours);
  /* An option that there is not, or that is there twice, is no error of Ganesha's. */
  if (result == 0 && !config_error_no_error(&ours)) result = EINVAL;
  config_error_comb_errors(all, &ours);
  all->errors += ours.errors;
  return result;
}

void weft_options_free(struct weft_options* options) {
  gsh_free(options->metadata_path);
  gsh_free(options->control_address);
  gsh_free(options->key_file);
  gsh_free(options->admin_socket);
  gsh_free(options->metrics_address);
  gsh_free(options->status_address);
}
