/* HTML pages about runs, which are also XHTML, without scripts or other files. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stdbool.h>
#include <stdio.h>

/* page_begin writes everything before the content, including the title as a heading; page_end everything after it. */
void page_begin(FILE *file, const char *title);
void page_end(FILE *file);

/* Returns whether the file begins as page_begin writes it, in this version or an earlier one. */
bool page_is_own(const char *path);

#endif
