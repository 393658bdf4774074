/* Pages on runs: HTML that is XHTML too, without scripts or other files. */
#ifndef TRAIN_PAGE_H
#define TRAIN_PAGE_H

#include <stdio.h>

/* What stands before the content, the title as its heading included, and behind it. */
void page_begin(FILE *file, const char *title);
void page_end(FILE *file);

#endif
