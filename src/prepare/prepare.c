#include "prepare/prepare_private.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/temporary.h"
#include "prepare/clusters.h"
#include "prepare/inputs.h"

#include <stdlib.h>

static int run(struct prepare_run *prepare)
{
    int code = prepare_options(prepare);
    if (code == ERROR_NONE)
        code = prepare_name_outputs(prepare);
    if (code == ERROR_NONE)
        code = spool_create(&prepare->spool, prepare->settings->output, prepare->token_bytes);
    if (code == ERROR_NONE)
        code = prepare_read(prepare);
    if (code == ERROR_NONE)
        code = prepare_write(prepare);
    if (code == ERROR_NONE)
        prepare_report(prepare);
    return code;
}

int prepare_run(const struct prepare_settings *given)
{
    struct prepare_settings settings = *given;
    struct prepare_run prepare = {.settings = &settings};
    struct prepare_inputs inputs;
    int code = inputs_expand(&inputs, given->inputs, given->input_count);
    settings.inputs = (const char *const *)inputs.paths;
    settings.input_count = inputs.count;
    prepare.sources = memory_allocate((inputs.count + 1) * (int64_t)sizeof *prepare.sources);
    prepare.ids = memory_allocate(PREPARE_COPY);
    prepare.duplicates = duplicates_create();
    temporary_catch_signals();
    if (code == ERROR_NONE)
        code = run(&prepare);
    for (int i = 0; i < SPLIT_PARTS; i++) {
        if (prepare.outputs[i].writer != NULL)
            prepare.outputs[i].writer->class->destroy(prepare.outputs[i].writer);
        free(prepare.outputs[i].path);
    }
    temporary_release_signals();
    for (int64_t i = 0; i < prepare.source_count; i++)
        free(prepare.sources[i]);
    encoding_destroy(prepare.encoding);
    tokenizer_close(prepare.tokenizer);
    spool_destroy(prepare.spool);
    repeats_destroy(prepare.repeats);
    duplicates_destroy(prepare.duplicates);
    clusters_destroy(prepare.clusters);
    regions_destroy(&prepare.regions);
    labels_destroy(prepare.labels);
    split_destroy(&prepare.split);
    free(prepare.parts);
    free(prepare.whole.letters);
    free(prepare.last_name);
    free(prepare.name);
    free(prepare.first_empty_file);
    memory_free(prepare.sources);
    memory_free(prepare.ids);
    inputs_destroy(&inputs);
    return code;
}
