/* Pages on runs: HTML that is XHTML too, without scripts or other files. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stdbool.h>
#include <stdio.h>

/* What stands before the content, the title as its heading included, and behind it. */
void page_begin(FILE *file, const char *title);
void page_end(FILE *file);

/* Does the file begin as page_begin writes it, in this version or an earlier one? */
bool page_is_own(const char *path);

#endif
