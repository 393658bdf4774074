/* The rule of centred windows, in which long records are scored. A record of at most `size` letters is its own window.
 * Otherwise windows have `size` letters and begin at multiples of size / 8 or at the last possible letter, and a site
 * is scored in the window whose middle is nearest to it. So at least 7/16 of a window are on each side of a site,
 * except near the record's ends, and neighbouring sites share windows. */
#ifndef INFER_SITE_WINDOW_H
#define INFER_SITE_WINDOW_H

#include <stdint.h>

/* Returns the first letter of the window for the letters first .. last (from 0) of a record of `length` letters; -1:
 * the letters do not fit into a window. It does not decrease when first and last grow. */
int64_t site_window(int64_t length, int64_t size, int64_t first, int64_t last);

#endif
