#include "infer/output.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/temporary.h"
#include "io/block.h"

#include <stdlib.h>

int output_check(const char *path, const char *input, const char *checkpoint)
{
    return block_check_output(path, (const char *const[]){input, checkpoint}, 2);
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
