#include "infer/output.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/temporary.h"

#include <stdlib.h>
#include <sys/stat.h>

int output_check(const char *path, const char *fasta, const char *checkpoint)
{
    const char *const inputs[] = {fasta, checkpoint};
    struct stat there, input;
    if (stat(path, &there) != 0)
        return ERROR_NONE;
    if (!S_ISREG(there.st_mode))
        return error_user("-o %s: exists and is no regular file; choose another output", path);
    for (int i = 0; i < 2; i++)
        if (stat(inputs[i], &input) == 0 && input.st_dev == there.st_dev && input.st_ino == there.st_ino)
            return error_user("-o %s: is an input and the output; choose another output", path);
    return ERROR_NONE;
}

int output_open(struct draft *output, const char *path)
{
    int code = draft_open(output, path);
    if (code == ERROR_NONE) {
        temporary_register(output->temporary);
        temporary_catch_signals();
    }
    return code;
}

int output_close(struct draft *output, int code)
{
    if (output->file == NULL)
        return code;
    char *temporary = memory_string(output->temporary);
    code = draft_close(output, code);
    temporary_forget(temporary);
    temporary_release_signals();
    free(temporary);
    return code;
}
