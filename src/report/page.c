#include "report/page.h"
#include "file/open.h"
#include "report/plot.h"

#include <string.h>

static const char head[] = "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
                           "<meta charset=\"utf-8\"/>\n<title>";

static const char style[] =
    "body { font: 15px/1.45 sans-serif; color: #1a1a1a; background: #ffffff; max-width: 780px; margin: 2em auto; "
    "padding: 0 1em; }\n"
    "h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 1.8em; }\n"
    "table { border-collapse: collapse; } table + table { margin-top: 1em; } td, th { padding: 0.15em 1em 0.15em 0; "
    "text-align: left; "
    "vertical-align: top; }\n"
    "td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "td.when, th { white-space: nowrap; }\n"
    "tr + tr td { border-top: 1px solid #e4e4e4; } pre { background: #f6f6f6; padding: 0.8em; overflow: auto; }\n"
    ".verdict { padding: 0.5em 0.8em; border-left: 6px solid #888888; background: #f6f6f6; }\n"
    ".finished { border-color: #228833; } .running { border-color: #4477aa; } .stopped { border-color: #ccbb44; }\n"
    ".diverged, .failed, .killed { border-color: #cc3311; }\n"
    ".plot { width: 100%; height: auto; display: block; margin: 1em 0; page-break-inside: avoid; }\n";
/* a phone's width: the names of facts above their values, wide tables scroll */
static const char narrow_style[] =
    ".wide { overflow-x: auto; } .wide td, .wide th { white-space: nowrap; }\n"
    "@media (max-width: 600px) { body { margin: 0.5em auto; padding: 0 0.7em; } h1 { font-size: 1.2em; overflow-wrap: "
    "anywhere; }\n.facts tr, .facts th, .facts td { display: block; border: none; padding: 0; } .facts td { "
    "margin-bottom: "
    "0.5em; overflow-wrap: anywhere; } }\n";
static const char print_style[] = "@media print { body { margin: 0; max-width: none; font-size: 11pt; } }\n";

void page_begin(FILE *file, const char *title)
{
    fputs(head, file);
    plot_write_escaped(file, title);
    fprintf(file,
            "</title>\n<meta name=\"viewport\" content=\"width=device-width, "
            "initial-scale=1\"/>\n<style>\n%s%s%s%s</style>\n"
            "</head>\n<body>\n<h1>",
            style, plot_style, narrow_style, print_style);
    plot_write_escaped(file, title);
    fputs("</h1>\n", file);
}

void page_end(FILE *file)
{
    fputs("</body>\n</html>\n", file);
}

bool page_is_own(const char *path)
{
    enum { MOST = 8192 /* the title may be a long path */ };
    char beginning[MOST + 1] = "";
    FILE *file = open_stream(path);
    if (file == NULL)
        return false;
    beginning[fread(beginning, 1, MOST, file)] = '\0';
    fclose(file);
    const char *styled = strstr(beginning, "<style>\n");
    return strncmp(beginning, head, strlen(head)) == 0 && styled != NULL &&
           strncmp(styled + strlen("<style>\n"), style, strcspn(style, "\n")) == 0;
}
