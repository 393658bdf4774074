/* cistron export */
#include "bridge/export.h"
#include "base/error.h"
#include "base/signals.h"
#include "command/command.h"

#include <string.h>

static struct export_settings given;
static const char *dtype = "fp32", *dialect = "hf";
static double shard_size = EXPORT_SHARD_BYTES / 1e9;

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)arguments;
    (void)count;
    given.bf16 = strcmp(dtype, "bf16") == 0;
    if (!given.bf16 && strcmp(dtype, "fp32") != 0)
        return error_user("--dtype %s: must be fp32 or bf16", dtype);
    given.dialect = strcmp(dialect, "te") == 0 ? DIALECT_TE : DIALECT_HF;
    if (given.dialect == DIALECT_HF && strcmp(dialect, "hf") != 0)
        return error_user("--dialect %s: must be hf or te", dialect);
    if (!(shard_size > 0 && shard_size < 1e9))
        return error_user("--shard-size %g: must be above 0 and below 1e9", shard_size);
    given.shard_bytes = (int64_t)(shard_size * 1e9);
    signals_catch();
    return export_run(&given);
}

static const struct command_option options[] = {
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "a checkpoint, or a run folder"},
    {"output", 'o', "FOLDER", COMMAND_PATH, true, &given.folder, "to be made; an empty one may be there"},
    {"force", 0, NULL, COMMAND_FLAG, false, &given.replace, "replace FOLDER where it holds an earlier export"},
    {"dialect", 0, "NAME", COMMAND_TEXT, false, &dialect,
     "of the tensors: hf, Hugging Face's, or te, BioNeMo's for TransformerEngine (hf)"},
    {"dtype", 0, "TYPE", COMMAND_TEXT, false, &dtype, "of the weights: fp32 or bf16 (fp32)"},
    {"shard-size", 0, "GB", COMMAND_REAL, false, &shard_size, "most of one file, in 10^9 bytes (5)"},
    {0}};

const struct command command_export = {
    .name = "export",
    .arguments = "",
    .summary = "make a Hugging Face folder of a checkpoint",
    .help =
        "Writes config.json, safetensors and the files of its tokenizer, as transformers loads them (AMPLIFY with its\n"
        "published classes); of a model of text these are its own. Where the checkpoint has no tokenizer, they must\n"
        "be copied. vLLM serves Llamas of this form (LlamaForCausalLM) by its documentation, which was not tried; it\n"
        "has no class for ESM-2 and AMPLIFY, nor for --dialect te.\n"
        "With --dialect te it is one that BioNeMo's recipes load: q, k and v in one tensor, gate and up too. Their\n"
        "file of classes has to be put beside it; the command says which.\n"
        "The folder appears when it is whole. A run folder means its final_model.h5 or, where that is later, its\n"
        "newest checkpoint.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
