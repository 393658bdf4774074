/* cistron jobscripts */
#include "base/error.h"
#include "base/memory.h"
#include "file/shipped.h"
#include "command/command.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool list;

/* Prints the file of the folder. */
static int print_file(const char *folder, const char *name)
{
    char *path = memory_format("%s/%s", folder, name);
    FILE *file = strchr(name, '/') == NULL ? fopen(path, "re") : NULL;
    free(path);
    if (file == NULL)
        return error_user("%s is not a job script of %s; cistron jobscripts --list lists them", name, folder);
    char block[4096];
    for (size_t bytes; (bytes = fread(block, 1, sizeof block, file)) > 0;)
        fwrite(block, 1, bytes, stdout);
    const bool failed = ferror(file) != 0;
    fclose(file);
    return failed ? error_environment("%s/%s: cannot read it: %s", folder, name, strerror(errno)) : ERROR_NONE;
}

/* Prints the script's name and what its second line, a comment, says of it, without a colon or comma at the end;
 * nothing for files that are not scripts. */
static void print_summary(const char *folder, const char *name)
{
    char *path = memory_format("%s/%s", folder, name), line[512];
    FILE *file = fopen(path, "re");
    free(path);
    if (file == NULL)
        return;
    if (fgets(line, sizeof line, file) != NULL && strncmp(line, "#!", 2) == 0 &&
        fgets(line, sizeof line, file) != NULL && strncmp(line, "# ", 2) == 0) {
        size_t length = strcspn(line, "\n");
        while (strchr(":,", line[length - 1]) != NULL)
            length--;
        line[length] = '\0';
        printf("%-24s %s\n", name, line + 2);
    }
    fclose(file);
}

static int print_list(const char *folder)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0)
        return error_environment("%s: cannot list it: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        print_summary(folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return ERROR_NONE;
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    char *folder = shipped_folder("jobscripts");
    int code = ERROR_NONE;
    if (list && count > 0)
        code = command_mistake(&command_jobscripts, "--list needs no FILE");
    else if (list)
        code = print_list(folder);
    else if (count > 0)
        code = print_file(folder, arguments[0]);
    else
        puts(folder);
    free(folder);
    return code;
}

static const struct command_option options[] = {
    {"list", 0, NULL, COMMAND_FLAG, false, &list, "list the scripts, each with its first sentence"}, {0}};

const struct command command_jobscripts = {
    .name = "jobscripts",
    .arguments = "[FILE]",
    .summary = "print the folder of the job scripts, a list of them, or one of them",
    .help = "Prints the folder of this program's job scripts, or the script FILE. A script finds the\n"
            "functions that all scripts share by this command, because a batch system runs a copy of the script from\n"
            "another folder and the program may be in a container. A changed copy works as well:\n\n"
            "  cistron jobscripts train.slurm >my_run.slurm",
    .options = options,
    .least = 0,
    .most = 1,
    .run = run,
};
