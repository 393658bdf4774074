/* cistron import */
#include "bridge/import.h"
#include "base/signals.h"
#include "command/command.h"

static struct import_settings given = {.version = PACKAGE_VERSION};

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    signals_catch();
    given.folder = arguments[0];
    return import_run(&given);
}

static const struct command_option options[] = {
    {"output", 'o', "F.h5", COMMAND_PATH, true, &given.output, "the checkpoint"},
    {"force", 0, NULL, COMMAND_FLAG, false, &given.replace, "replace a file that exists, a checkpoint too"},
    {"tokenizer", 0, "NAME", COMMAND_TEXT, false, &given.tokenizer,
     "of a Llama: what its ids stand for (what the folder's own tokenizer says)"},
    {0}};

const struct command command_import = {
    .name = "import",
    .arguments = "FOLDER",
    .summary = "make a checkpoint of a Hugging Face folder",
    .help =
        "Reads config.json and model.safetensors, or shards with their index, of a Llama, an ESM-2 or an AMPLIFY, in\n"
        "Hugging Face's dialect or that of BioNeMo's recipes (TransformerEngine; the tensors' names tell which), and\n"
        "writes a checkpoint that eval, generate, embed, export and inspect read, and that training starts from by\n"
        "model.initialise_from. Weights may be fp32, bf16 or fp16; what is not trained (ESM-2's contact head) is\n"
        "carried along. A Llama's tokenizer of text (tokenizer.json or tokenizer.model: byte-level BPE) is kept\n"
        "with it, each of its files as it is (a chat template, say), and so are all end tokens; none is needed.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
