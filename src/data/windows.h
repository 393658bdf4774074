/* Windows of a token store (data/windows_layout.h), one after the other in the store's order, by the store's index
 * (data/windows_index.h). */
#ifndef DATA_WINDOWS_H
#define DATA_WINDOWS_H

#include "comm/comm.h"
#include "data/window_source.h"
#include "data/windows_index.h"

struct store_windows {
    struct window_source source;
    struct windows_index index;
};

/* Windows and tokens of a whole store, by reading its offsets; no side file is made. Local. Errors as windows_open. */
int windows_measure(const struct token_store *store, const struct windows_layout *layout, int64_t *windows,
                    int64_t *tokens);

/* Collective over world: rank 0 makes the side file where there is none that fits, ranks that see other folders make
 * theirs, then all map it; where a folder cannot be written each rank makes a private table, with a warning, and the
 * store is not compared with its checksum. Borrows the store. The same code on all ranks; user errors: an overlap that
 * leaves no progress (data.overlap), a window too small, a damaged store (token_store_verify). ERROR_REQUEUE: a signal
 * came meanwhile (base/signals.h); nothing is left behind. */
int windows_open(struct store_windows **windows, const struct token_store *store, const struct windows_layout *layout,
                 struct comm *world);
void windows_close(struct store_windows *windows);

/* Window number w of the store's order. *hint is a sequence number, any at first, that makes walks in store order
 * cheap; it is updated. Fatal: the file has changed since windows_open and the window would reach beyond the store. */
struct token_window windows_locate(const struct store_windows *windows, int64_t w, int64_t *hint);

#endif
