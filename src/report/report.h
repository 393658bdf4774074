/* `cistron report RUN_FOLDER`: reports on a run from its log.jsonl and deck.cfg, as an HTML page and as text. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

/* Writes the page to `out`, completely or not at all, and the text to standard output. The page needs neither other
 * files nor scripts, and is also XHTML. The run may still be running. One process, no MPI. Records a message and
 * returns ERROR_USER (not a run) or ERROR_ENVIRONMENT. */
int report_run(const char *folder, const char *out);

#endif
