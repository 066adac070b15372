/* Reads an export's FSAL block by Ganesha's parser. C, as the tables of load_options.c. */
#pragma once

#include "ganesha-fsal/config/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the block at parse_node. 0, or an errno; err_type then has the details for Ganesha's log.
 * An option that is unknown, or given twice, is an error.
 */
int weft_options_load(void* parse_node, struct weft_options* options, void* err_type);
void weft_options_free(struct weft_options* options);

#ifdef __cplusplus
}
#endif
