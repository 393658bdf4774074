/* cistron export */
#include "bridge/adapter_export.h"
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
    return given.adapter ? adapter_export_run(&given) : export_run(&given);
}

static const struct command_option options[] = {
    {"checkpoint", 0, "FILE", COMMAND_PATH, true, &given.checkpoint, "checkpoint or run folder"},
    {"output", 'o', "FOLDER", COMMAND_PATH, true, &given.folder, "folder to create; an empty folder is accepted"},
    {"force", 0, NULL, COMMAND_FLAG, false, &given.replace, "replace FOLDER if it is an earlier export"},
    {"adapter", 0, NULL, COMMAND_FLAG, false, &given.adapter,
     "write the LoRA adapters alone, as peft's folder; default: merge them into the weights"},
    {"dialect", 0, "NAME", COMMAND_TEXT, false, &dialect,
     "names of the tensors: hf (Hugging Face) or te (BioNeMo, for TransformerEngine) (hf)"},
    {"dtype", 0, "TYPE", COMMAND_TEXT, false, &dtype, "type of the weights: fp32 or bf16 (fp32)"},
    {"shard-size", 0, "GB", COMMAND_REAL, false, &shard_size, "maximum size of a file, in 10^9 bytes (5)"},
    {0}};

const struct command command_export = {
    .name = "export",
    .arguments = "",
    .summary = "export a checkpoint as a Hugging Face folder",
    .help = "Writes config.json, safetensors and tokenizer files as transformers loads them (AMPLIFY with its\n"
            "published classes). The tokenizer files of a text model are those that it was imported or trained with;\n"
            "if the checkpoint has no tokenizer, copy them. According to its documentation vLLM serves Llamas of this\n"
            "form (LlamaForCausalLM); this was not tested. vLLM has no class for ESM-2, AMPLIFY and --dialect te.\n\n"
            "With --dialect te BioNeMo's recipes load the folder: q, k and v are one tensor, and so are gate and up.\n"
            "The recipes' file of classes must be copied into the folder; the command prints which.\n\n"
            "The folder appears when it is complete. A run folder stands for its final_model.h5 or, if that is later,\n"
            "its newest checkpoint.",
    .options = options,
    .least = 0,
    .most = 0,
    .run = run,
};
