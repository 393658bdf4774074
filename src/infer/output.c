#include "infer/output.h"
#include "base/error.h"
#include "file/temporary.h"
#include "file/block.h"

int output_check(const char *path, int how, const char *input, const char *checkpoint)
{
    return block_check_output(path, how, (const char *const[]){input, checkpoint}, 2);
}

int output_open(struct atomic_file *output, const char *path)
{
    temporary_catch_signals();
    int code = atomic_file_open_output(output, path);
    if (code != ERROR_NONE)
        temporary_release_signals();
    return code;
}

int output_close(struct atomic_file *output, int code)
{
    if (output->file == NULL)
        return code;
    code = atomic_file_close(output, code);
    temporary_release_signals();
    return code;
}
