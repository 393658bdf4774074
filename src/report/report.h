/* `cistron report RUN_FOLDER`: what became of a run, from its log.jsonl and deck.cfg, as a page and as text. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

/* Writes the page to `out`, whole or not at all, and the text to standard output. The
 * page needs no other file and no script; it is XHTML too. The run may be going on. One process, no MPI. ERROR_USER: no
 * run there; ERROR_ENVIRONMENT. The message is in the record. */
int report_run(const char *folder, const char *out);

#endif
