/* cistron import */
#include "bridge/adapter_import.h"
#include "bridge/peft.h"
#include "base/error.h"
#include "base/signals.h"
#include "command/command.h"

static struct import_settings given = {.version = PACKAGE_VERSION};

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    signals_catch();
    given.folder = arguments[0];
    if (given.base != NULL && given.tokenizer != NULL)
        return error_user("--tokenizer: not with --base, whose tokenizer the model has");
    if (given.base == NULL && peft_is_adapter(given.folder))
        return error_user("%s: is an adapter; name the checkpoint of its base with --base", given.folder);
    return given.base != NULL ? adapter_import_run(&given) : import_run(&given);
}

static const struct command_option options[] = {
    {"output", 'o', "F.h5", COMMAND_PATH, true, &given.output, "output file, a checkpoint"},
    {"force", 0, NULL, COMMAND_FLAG, false, &given.replace, "replace an existing file, also a checkpoint"},
    {"base", 0, "FILE", COMMAND_PATH, false, &given.base,
     "FOLDER is a LoRA adapter of peft: checkpoint or run folder of its base"},
    {"tokenizer", 0, "NAME", COMMAND_TEXT, false, &given.tokenizer,
     "bundled tokenizer of its ids (that of the folder)"},
    {0}};

const struct command command_import = {
    .name = "import",
    .arguments = "FOLDER",
    .summary = "import a Hugging Face folder as a checkpoint",
    .help =
        "Reads config.json and model.safetensors, or shards with their index, of a Llama, Qwen, Mistral, Mixtral,\n"
        "OLMo 2, ESM-2, ESM C, Nucleotide Transformer v2 or AMPLIFY, in the dialect of Hugging Face or of\n"
        "BioNeMo's recipes (TransformerEngine), whichever the names of the tensors show. Writes a checkpoint that\n"
        "eval, generate, embed, export and inspect read, and from which model.initialise_from starts a training.\n"
        "Weights may be fp32, bf16 or fp16; tensors that are not trained (ESM-2's contact head) are carried along. A\n"
        "Llama's text tokenizer (tokenizer.json or tokenizer.model) is kept with its files unchanged, such as a chat\n"
        "template, and so are all end tokens; a tokenizer is not required.\n\n"
        "With --base, FOLDER has the adapter_config.json and adapter_model.safetensors of peft. The checkpoint has\n"
        "the base's weights and the adapters: a run with lora.rank trains them further, and export merges them.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
