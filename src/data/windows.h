/* Windows of a token store (data/windows_layout.h) in store order, found by the store's window index
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

/* Counts the windows and tokens of a whole store from its offsets, without a side file. Local. Errors: as in
 * windows_open. */
int windows_measure(const struct token_store *store, const struct windows_layout *layout, int64_t *windows,
                    int64_t *tokens);

/* Opens the windows of a store, which is borrowed. Rank 0 makes the side file if there is no valid one, ranks that see
 * another folder make theirs, then all map it. If the folder cannot be written, each rank makes a private table, with a
 * warning, and the store is not compared with its checksum. Collective over world, with the same code on all ranks.
 * ERROR_USER: too large an overlap (data.overlap), a window too small (data.window), a damaged store
 * (token_store_verify). ERROR_REQUEUE: a signal stopped it (base/signals.h); no file remains. */
int windows_open(struct store_windows **windows, const struct token_store *store, const struct windows_layout *layout,
                 struct comm *world);
void windows_close(struct store_windows *windows);

/* Writes windows number w[count] in store order to out[count]. Fatal: the file has changed since windows_open and a
 * window would reach beyond the store. */
void windows_locate(const struct store_windows *windows, const int64_t *w, int64_t count, struct token_window *out);

#endif
