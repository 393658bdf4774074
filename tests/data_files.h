/* For tests of reading and writing data: files in a scratch folder, and checks of user errors. */
#ifndef TESTS_DATA_FILES_H
#define TESTS_DATA_FILES_H

#include "check.h"
#include "stores.h"

#include <dirent.h>

static inline void write_file(const char *path, const char *mode, const void *data, size_t bytes)
{
    FILE *file = fopen(path, mode);
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        error_fatal("cannot write %s", path);
}

/* Checks that the code is ERROR_USER, with a message that contains the words. */
static inline void check_user_error(const char *file, int line, int code, const char *words)
{
    if (!check_report(file, line, code == ERROR_USER && strstr(error_message(), words) != NULL, "user error"))
        fprintf(stderr, "    code %d, message \"%s\", wanted \"%s\"\n", code, error_message(), words);
    error_clear();
}

#define CHECK_USER(code, words) check_user_error(__FILE__, __LINE__, code, words)

static inline int files_in_folder(void)
{
    int count = 0;
    DIR *folder = opendir(stores_folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

#endif
