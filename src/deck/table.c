#include "deck/table.h"

#include <math.h>

/* The name makes both the key and the field, so the two cannot differ. */
#define KEY(name) .key = #name, .offset = offsetof(struct deck, name)
#define BOOL(name, value) KEY(name), .type = DECK_TYPE_BOOL, .number = value
#define INT(name, value, from, to) KEY(name), .type = DECK_TYPE_INT, .number = value, .minimum = from, .maximum = to
#define REAL(name, value, from, to) KEY(name), .type = DECK_TYPE_REAL, .number = value, .minimum = from, .maximum = to
#define STRING(name, value) KEY(name), .type = DECK_TYPE_STRING, .string = value, .maximum = DECK_STRING - 1
#define PATH(name, value) STRING(name, value), .paths = DECK_PATHS_ONE
#define PATHS(name, value) STRING(name, value), .paths = DECK_PATHS_LIST
#define CHOICE(name, value, ...)                                                                                       \
    KEY(name), .type = DECK_TYPE_CHOICE, .number = value, .choices = (const char *const[])                             \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

#define FAMILY_NAME(name) , #name

#define LARGE 1099511627776.0 /* 2^40: beyond any size or count of a run */
#define WIDTH 16777216.0      /* 2^24: far beyond any width or context, and products of sizes stay exact */
#define LAYERS 65536.0
#define INDEX 2147483647.0       /* what a 32-bit index reaches */
#define EXACT 9007199254740992.0 /* 2^53: the largest bound a double holds exactly */

const struct deck_row deck_table[] = {
    {STRING(model.preset, ""), .restart = RESTART_TENSORS,
     .doc = "Name of a published model whose sizes are taken; \"\" for none. Keys of this section that are set replace "
            "the preset's values."},
    {CHOICE(model.family, DECK_FAMILY_PRESET, "preset" DECK_FAMILIES(FAMILY_NAME)), .restart = RESTART_TENSORS,
     .doc = "Form of the blocks and the head: \"preset\" takes the preset's, or \"llama\" without one. \"esm2\" and "
            "\"amplify\" learn to predict masked tokens (data.mask_probability), \"llama\" the next one."},
    {PATH(model.initialise_from, ""), .restart = RESTART_FREE,
     .doc = "Checkpoint file or run folder whose weights a new run starts from, such as `cistron import` makes of a "
            "Hugging Face folder; \"\" starts from train.seed. Keys of this section that are not set take its values, "
            "and sizes that are set must be its own. Step, data and learning rate start at their beginning, where "
            "train.resume goes on with them; a run that has a checkpoint of its own goes on from that and needs the "
            "file no more."},
    {BOOL(model.initialise_optimizer, false), .restart = RESTART_FREE,
     .doc = "Take the optimizer's moments and its count of updates from model.initialise_from as well, which must "
            "then be a step's checkpoint; else the moments start at 0."},
    {INT(model.layers, 0, 0, LAYERS), .restart = RESTART_TENSORS, .doc = "Transformer blocks; 0 takes the preset's."},
    {INT(model.hidden, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Width of the residual stream; 0 takes the preset's."},
    {INT(model.ffn, 0, 0, WIDTH), .restart = RESTART_TENSORS, .doc = "Inner width of the MLP; 0 takes the preset's."},
    {INT(model.heads, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Query heads of attention; 0 takes the preset's."},
    {INT(model.kv_heads, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Key and value heads, shared by groups of query heads; 0 takes the preset's, or model.heads without one."},
    {INT(model.head_dim, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Width of a head; 0 takes the preset's, or model.hidden / model.heads without one."},
    {INT(model.vocabulary, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_TENSORS,
     .doc = "Rows of the embedding; 0 takes the preset's, or the token store's vocabulary without one."},
    {INT(model.positions, 0, 0, LARGE), .unit = "tokens", .restart = RESTART_FREE,
     .doc =
         "Longest sequence that the model is made for (max_position_embeddings of its config.json; ESM-2 counts two "
         "more): longer windows are refused, and an export claims it. Nothing is computed from it: to train on longer "
         "sequences, set it. 0 takes the preset's, and in an export the longest window; without a preset there is no "
         "limit."},
    {CHOICE(model.tied, DECK_TIED_PRESET, "preset", "yes", "no"), .restart = RESTART_TENSORS,
     .doc = "Whether the head shares the embedding's matrix; without a preset, \"esm2\" does."},
    {BOOL(model.norm_zero_centered, false), .restart = RESTART_MODEL,
     .doc =
         "Whether gains of norms are parameters as their distance from 1 (Megatron's --apply-layernorm-1p): they start "
         "as 0, bf16 holds more of their digits, and weight decay, where it reaches them (optimizer.decay), pulls "
         "gains to 1. No Hugging Face model is like that: an export is refused."},
    {CHOICE(model.gelu, DECK_GELU_ERF, "erf", "tanh"), .restart = RESTART_MODEL,
     .doc =
         "Form of GELU in the blocks of \"esm2\": exact, or by tanh as TransformerEngine has it. The head's is exact."},
    {BOOL(model.token_dropout, true), .restart = RESTART_MODEL,
     .doc =
         "\"esm2\": masked tokens' embeddings are 0, and each sequence's are scaled by (1 - 0.12) / (1 - its share of "
         "masked tokens)."},
    {REAL(model.rope_theta, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "Base of the rotary frequencies; 0 takes the preset's, or 10000 without one."},
    {CHOICE(model.rope_rounding, DECK_ROUNDING_NONE, "none", "fp16", "bf16"), .restart = RESTART_MODEL,
     .doc = "Type that the rotary frequencies are rounded to, as a model has them whose table was kept in 16 bits; an "
            "import says so."},
    {REAL(model.norm_eps, 0, 0, 1), .restart = RESTART_MODEL,
     .doc = "Added to the mean square or variance inside norms; 0 takes the preset's, or 1e-5 without one."},
    {REAL(model.init_std, 0, 0, INFINITY), .restart = RESTART_START,
     .doc = "Standard deviation of the initial matrices, in \"amplify\" the bound of their uniform values; 0 takes the "
            "preset's, or 0.02 without one."},
    {BOOL(model.scaled_init, false), .restart = RESTART_START,
     .doc = "Divide the initial standard deviation of the attention and MLP output projections by sqrt(2 layers)."},
    {BOOL(model.spike_no_more, false), .restart = RESTART_TENSORS,
     .doc = "Against loss spikes: start the embedding with standard deviation 1, untie the head, and keep weight decay "
            "off the embedding."},
    {REAL(model.rope_scaling.factor, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "Llama 3's stretching of long rotary wavelengths by this factor; 0 takes the preset's, or no stretching "
            "without one."},
    {REAL(model.rope_scaling.low, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "Wavelengths beyond original / low are stretched by the whole factor; 0 takes the preset's."},
    {REAL(model.rope_scaling.high, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "Wavelengths below original / high are left alone; 0 takes the preset's."},
    {INT(model.rope_scaling.original, 0, 0, LARGE), .unit = "tokens", .restart = RESTART_MODEL,
     .doc = "Context length of the training before the stretching; 0 takes the preset's."},

    {INT(train.steps, 1000, 1, LARGE), .unit = "steps", .restart = RESTART_TOLD,
     .doc = "The step at which the run ends."},
    {INT(train.global_batch, 16, 1, INDEX), .unit = "rows", .restart = RESTART_TOLD,
     .doc = "Rows of data.row_tokens tokens that one step learns from, over all ranks and micro-batches."},
    {INT(train.micro_batch, 4, 1, INDEX), .unit = "rows", .restart = RESTART_TOLD,
     .doc = "Rows that one rank works on at a time; gradients accumulate until the global batch is through."},
    {INT(train.seed, 42, 0, EXACT), .restart = RESTART_DATA,
     .doc = "Seed of the initial weights and of the data's order."},
    {PATH(train.resume, "auto"), .restart = RESTART_FREE,
     .doc =
         "\"auto\" goes on from the newest good checkpoint of output.folder or starts afresh; \"never\" starts "
         "afresh and refuses a folder that holds a run; else the checkpoint file or run folder to go on from, with "
         "its step, data and optimizer (model.initialise_from takes weights alone): a run that has begun so, started "
         "again, goes on from the newest of its own."},
    {STRING(train.walltime, ""), .restart = RESTART_FREE,
     .doc = "Time that the program may take from its start, as Slurm writes it (\"90\" minutes, \"04:00:00\", "
            "\"1-12:00:00\"): it stops in time, after a checkpoint, with exit code 85; \"\" for no limit."},
    {BOOL(train.reproducible, false), .restart = RESTART_TOLD,
     .doc =
         "Losses, gradients and updates have the same bits on any number of ranks, whatever they share of the state, "
         "with the same train.global_batch, train.micro_batch, parallel.context and memory.head_tokens: what is added "
         "over micro-batches and ranks is rounded first, so that sums are exact. Takes up to 8 bytes a parameter more. "
         "Needs device.deterministic; the kind of device and a CPU's threads must be the same."},
    {CHOICE(train.on_divergence, DECK_DIVERGENCE_STOP, "stop", "skip", "rewind"), .restart = RESTART_TOLD,
     .doc = "When a step's loss or gradient is not finite, its update is never made: \"stop\" ends the run with exit "
            "code 3, \"skip\" goes on with the next step and ends the run so at the tenth in a row. \"rewind\" goes "
            "back to "
            "the last checkpoint, and learns there from the rows that follow the bad step's; the run ends so where it "
            "has none, or after five returns to one checkpoint."},

    {REAL(optimizer.lr, 1e-3, 0, INFINITY), .above_minimum = true, .restart = RESTART_TOLD,
     .doc = "Peak learning rate of AdamW."},
    {REAL(optimizer.decoupled_lr, 0, 0, INFINITY), .restart = RESTART_TOLD,
     .doc = "Peak learning rate of the matrices of embedding and head, where it is one of their own; 0 takes "
            "optimizer.lr. A tied head has the embedding's."},
    {REAL(optimizer.beta1, 0.9, 0, 1), .below_maximum = true, .restart = RESTART_TOLD,
     .doc = "Decay of the first moment per step."},
    {REAL(optimizer.beta2, 0.95, 0, 1), .below_maximum = true, .restart = RESTART_TOLD,
     .doc = "Decay of the second moment per step."},
    {REAL(optimizer.eps, 1e-8, 1e-35, INFINITY), .restart = RESTART_TOLD,
     .doc = "Added to the root of the second moment, in fp32."},
    {REAL(optimizer.weight_decay, 0.1, 0, INFINITY), .restart = RESTART_TOLD,
     .doc = "Decoupled weight decay, multiplied by the learning rate; 0 is off."},
    {CHOICE(optimizer.decay, DECK_DECAY_MATRICES, "all", "matrices", "matrices_not_embedding"), .restart = RESTART_TOLD,
     .doc = "The parameters that weight decay reaches."},
    {REAL(optimizer.clip, 1.0, 0, INFINITY), .restart = RESTART_TOLD,
     .doc = "Gradients are scaled down to this global L2 norm; 0 is off."},

    {CHOICE(schedule.kind, DECK_SCHEDULE_COSINE, "cosine", "linear", "constant"), .restart = RESTART_TOLD,
     .doc = "Shape of the learning rate's fall after the warm-up."},
    {CHOICE(schedule.rule, DECK_RULE_RECIPE, "recipe", "megatron", "nemo"), .restart = RESTART_TOLD,
     .doc = "Factor of update s, counted from 0, in the warm-up: \"recipe\" s / warmup, so that the first update has "
            "rate 0; \"megatron\" (s + 1) / warmup; \"nemo\" (s + 1) / (warmup + 1)."},
    {CHOICE(schedule.count, DECK_COUNT_STEPS, "steps", "samples"), .restart = RESTART_TOLD,
     .doc = "What schedule.warmup, schedule.hold and schedule.decay count: steps, or rows, of which a step has "
            "train.global_batch."},
    {INT(schedule.warmup, 0, 0, LARGE), .unit = "steps or samples", .restart = RESTART_TOLD,
     .doc = "Length of the linear warm-up from 0 to optimizer.lr."},
    {INT(schedule.hold, 0, 0, LARGE), .unit = "steps or samples", .restart = RESTART_TOLD,
     .doc = "Length of the part at optimizer.lr between the warm-up and the fall (warm-up, stable, decay)."},
    {INT(schedule.decay, 0, 0, LARGE), .unit = "steps or samples", .restart = RESTART_TOLD,
     .doc = "Length of the fall after schedule.warmup and schedule.hold; 0 takes the rest of train.steps."},
    {REAL(schedule.min_ratio, 0.05, 0, 1), .restart = RESTART_TOLD,
     .doc = "The learning rate's end, as a part of optimizer.lr."},
    {REAL(schedule.decoupled_min_ratio, 0.05, 0, 1), .restart = RESTART_TOLD,
     .doc = "The end of the learning rate of embedding and head, as a part of optimizer.decoupled_lr; without effect "
            "where that is 0."},

    {CHOICE(data.source, DECK_DATA_STORE, "store", "random"), .restart = RESTART_DATA,
     .doc = "\"random\" learns from data that is made up on the way, the same at any number of ranks, for benchmarks: "
            "tokens uniform over the model's vocabulary (of masked models, their tokenizer's), in sequences without "
            "end. No store is read then: data.train, data.weights and data.valid count for nothing."},
    {INT(data.random_median, 0, 0, LARGE), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Random data: median of the sequences' log-normal lengths, before data.window cuts them; 0, with "
            "data.random_mean: each sequence fills one window."},
    {INT(data.random_mean, 0, 0, LARGE), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Random data: mean of these lengths."},
    {PATHS(data.train, ""), .restart = RESTART_TOLD,
     .doc = "Token store to learn from, made by `cistron prepare`, or several with commas between, or a list: "
            "(\"a.h5\", \"b,c.h5\"); in one string a comma of a path is written \\\\, (on the command line \\,). "
            "shards/*.h5 stands for all files that match, in order. At most 4096. A run that goes on may have others: "
            "stores that stay, "
            "known by their content, go on where they were (doc/errors.md). "
            "PREFIX of PREFIX.bin and PREFIX.idx names a Megatron data set, and shards/*.idx many."},
    {STRING(data.weights, ""), .restart = RESTART_TOLD,
     .doc = "For each store of data.train, commas between, the share of windows that are drawn from it (any positive "
            "numbers: they are scaled to sum to 1); \"\" draws in proportion to the stores' windows. A run and "
            "`cistron plan` say how often each store is repeated, and warn above 10 times."},
    {PATH(data.valid, ""), .restart = RESTART_TOLD,
     .doc = "Token store, or prefix of a Megatron data set, to validate on; \"\" for none."},
    {STRING(data.parts, ""), .restart = RESTART_DATA,
     .doc = "Megatron data sets: shares of their documents that are for training, validation and tests, as Megatron's "
            "--split: with \"949,50,1\" data.train learns from the first 94.9 % and data.valid is the 5 % behind; "
            "\"\" takes all for each."},
    {PATH(data.tokenizer, ""), .restart = RESTART_DATA,
     .doc = "Megatron data sets: the tokenizer that made their ids, as `cistron prepare --tokenizer` takes it; \"\" "
            "takes them as ids below model.vocabulary that mean nothing."},
    {CHOICE(data.order, DECK_ORDER_OWN, "own", "megatron"), .restart = RESTART_DATA,
     .doc = "\"megatron\": each step has the rows of Megatron-LM's step, from data sets of its kind: order, epochs and "
            "turns of a blend by train.seed, train.steps x train.global_batch and data.weights. Takes 12 bytes of "
            "memory a row and 4 a document and epoch on each rank. data.shuffle counts for nothing then."},
    {INT(data.row_tokens, 1024, 1, WIDTH), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Length of a row, the unit that batches are made of; a multiple of 16."},
    {INT(data.window, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Longest piece of a sequence, special tokens included; 0 takes data.row_tokens."},
    {INT(data.overlap, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Tokens that neighbouring windows of a sequence share."},
    {BOOL(data.truncate, false), .restart = RESTART_DATA,
     .doc = "Each sequence gives its first window alone, and what it has beyond is left out; needs special tokens "
            "around every window and no overlap."},
    {INT(data.max_segments, 64, 1, INDEX), .restart = RESTART_DATA,
     .doc = "Most pieces in one row; the row is closed when it holds so many."},
    {CHOICE(data.format, DECK_FORMAT_PACKED, "packed", "padded"), .restart = RESTART_DATA,
     .doc = "\"packed\" rows hold windows end to end, \"padded\" rows one window each and padding."},
    {BOOL(data.split, true), .restart = RESTART_DATA,
     .doc = "Packed rows: cut a window that does not fit and carry its rest to the next row, instead of padding."},
    {CHOICE(data.special_tokens, DECK_SPECIAL_WINDOW, "window", "sequence"), .restart = RESTART_DATA,
     .doc = "Begin and end tokens stand around every window, or only at the ends of whole sequences."},
    {BOOL(data.bos, true), .restart = RESTART_DATA,
     .doc = "The begin token is one of these. Tokenizers of text often add it alone: then data.eos is false."},
    {BOOL(data.eos, true), .restart = RESTART_DATA, .doc = "The end token is one of these. Masked models need both."},
    {BOOL(data.mask_degenerate, true), .restart = RESTART_LABELS,
     .doc = "Nucleotides: do not learn to predict anything but A, C, G, T, a, c, g, t. No other tokens are touched."},
    {BOOL(data.uppercase_labels, false), .restart = RESTART_LABELS,
     .doc = "Nucleotides: predict upper case for lower-case letters; inputs stay as they are."},
    {REAL(data.mask_probability, 0.15, 0, 1), .above_minimum = true, .below_maximum = true, .restart = RESTART_LABELS,
     .doc = "Masked models: probability that a token is selected, to be predicted from the others; of these 80 % are "
            "replaced by the mask token, 10 % by a random one, and 10 % stay. Special tokens are never selected."},
    {BOOL(data.shuffle, true), .restart = RESTART_DATA,
     .doc = "Draw windows in a random order, another one each epoch; false keeps the "
            "store's order."},
    {BOOL(data.balance, true), .restart = RESTART_FREE,
     .doc = "Deal the micro-batches of a step out to ranks so that they have as much to do as each other at any time, "
            "by the squares of the segments' lengths. What is in a micro-batch does not change by it."},

    {INT(validation.every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Validate on data.valid each time so many steps are done, and after the last; 0 is after the last alone."},
    {INT(validation.rows, 64, 0, LARGE), .unit = "rows", .restart = RESTART_TOLD,
     .doc = "Rows of the fixed validation set, from the store's start; 0 takes all."},

    {INT(checkpoint.every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Write a checkpoint each time so many steps are done, and at the end; 0 writes none by steps."},
    {REAL(checkpoint.every_minutes, 15, 0, INFINITY), .unit = "minutes", .restart = RESTART_FREE,
     .doc = "Write a checkpoint when so much time has passed since the last one (or since the start), or 20 times as "
            "long as the slowest took, if that is more; 0 writes none by time."},
    {INT(checkpoint.keep, 3, 1, LARGE), .unit = "files", .restart = RESTART_FREE,
     .doc = "The newest checkpoints that are kept; older ones are removed."},
    {INT(checkpoint.keep_every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Checkpoints of multiples of so many steps are never removed; 0 is off."},
    {BOOL(checkpoint.keep_best, false), .restart = RESTART_FREE,
     .doc = "Write a checkpoint at each new lowest validation loss, and keep that of the lowest."},
    {CHOICE(checkpoint.on_failure, DECK_FAILURE_STOP, "stop", "continue"), .restart = RESTART_FREE,
     .doc = "When a checkpoint cannot be written (a full disk): end the run with exit code 1, or warn and go on to the "
            "next. The older checkpoints stand either way."},
    {BOOL(checkpoint.at_end, true), .restart = RESTART_FREE,
     .doc = "After the last step, write its checkpoint and the final model; false leaves both out, for measurements."},
    {BOOL(checkpoint.asynchronous, true), .restart = RESTART_FREE,
     .doc = "Asynchronous checkpoints (async save): a step waits for a snapshot, a copy of weights and moments in host "
            "memory, and a thread of each rank writes it while training goes on. The next save waits for it, and so "
            "does the end. What does not fit in host memory is written in the step, as false does for all; so are the "
            "last checkpoint, a best one, and those of parallel.tensor above 1. The files are the same."},
    {BOOL(checkpoint.export_final, false), .restart = RESTART_FREE,
     .doc = "At the end of the run, leave the model as a Hugging Face folder as well: final_model in output.folder."},

    {PATH(output.folder, "run"), .minimum = 1, .restart = RESTART_FREE,
     .doc = "Folder of the run's log, deck and checkpoints."},

    {INT(log.every, 10, 1, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Print and log a line each so many steps, at step 1 and at the last."},
    {BOOL(log.tensorboard, true), .restart = RESTART_FREE,
     .doc = "Write TensorBoard event files to the folder tensorboard of output.folder."},
    {PATH(log.prometheus, ""), .restart = RESTART_FREE,
     .doc =
         "File of metrics for Prometheus (node_exporter's textfile collector), written anew with the log's lines, at "
         "most once a second: a path, or a name without \"/\" for one in output.folder (\"cistron.prom\"), which ends "
         "in .prom; \"\" writes none."},

    {INT(profile.start, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "First step of a profile: what each kind of launch took on the device is logged, and profilers are started "
            "(`nsys profile --capture-range=cudaProfilerApi`); 0 is off."},
    {INT(profile.stop, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE, .doc = "Last step of the profile."},
    {STRING(profile.ranks, "0"), .restart = RESTART_FREE,
     .doc = "Ranks that are profiled, commas between, or \"all\"; the log shows rank 0's."},
    {BOOL(profile.collectives, false), .restart = RESTART_FREE,
     .doc = "Each profiled rank also writes its collectives to collectives_RANK.csv in output.folder: group, number, "
            "bytes, and when in the step they began and ended."},

    {CHOICE(device.kind, DECK_DEVICE_AUTO, "auto", "cpu", "cuda"), .restart = RESTART_TOLD,
     .doc = "What computes; \"auto\" takes CUDA where the build and the machine have it."},
    {INT(device.threads, 0, 0, DECK_MAXIMUM_THREADS), .restart = RESTART_TOLD,
     .doc = "CPU threads of a rank; 0 shares the CPUs of the affinity mask out among the ranks of the node."},
    {REAL(device.memory, 0, 0, INFINITY), .unit = "GiB", .restart = RESTART_FREE,
     .doc =
         "Memory that a rank may use: a deck that needs more is refused, with what to change. 0 takes a rank's share "
         "of the memory that is free, among the ranks of a node, and of what a job's or container's limit leaves."},
    {REAL(device.peak, 0, 0, INFINITY), .unit = "TFLOP/s", .restart = RESTART_FREE,
     .doc = "Arithmetic peak of a rank's device, against which the log counts utilisation (MFU) and `cistron plan` the "
            "time of a step; 0 counts none."},
    {BOOL(device.deterministic, false), .restart = RESTART_TOLD,
     .doc =
         "On CUDA: two runs on the same GPUs and libraries give the same numbers to the bit, whatever is faster; CPUs "
         "always do."},
    {BOOL(device.graphs, true), .restart = RESTART_FREE,
     .doc = "On CUDA: the launches of a step are recorded once and replayed as graphs; false launches each anew."},
    {BOOL(device.share, false), .restart = RESTART_FREE,
     .doc = "On CUDA: several ranks may use one GPU, and sum in the host's memory, which is slow; else there must be a "
            "GPU for each rank of a node."},
    {PATH(device.tuning_file, ""), .restart = RESTART_FREE,
     .doc = "On CUDA: file that keeps which kernels were the fastest, for later runs on the same kind of GPU; \"\" is "
            "one for each kind in $XDG_CACHE_HOME/cistron or ~/.cache/cistron, \"none\" times at every start. No link, "
            "and nobody else's. What a checkpoint that is gone on from has goes before it, what comes with the program "
            "after it. Not read or written with device.deterministic."},
    {PATH(device.rates_file, ""), .restart = RESTART_FREE,
     .doc =
         "File of a machine's rates, as `cistron measure` writes it, by which `cistron plan` tells what a step takes "
         "and parallel.shard = \"auto\" or parallel.context = 0 chooses; training reads it for these alone. \"\" takes "
         "those of an H200, of which device.peak scales the arithmetic."},

    {REAL(comm.timeout, 600, 0, INFINITY), .unit = "s", .restart = RESTART_FREE,
     .doc = "A collective that takes longer ends the run with exit code 1, and names the ranks that are missing; ten "
            "times as long at the start and the end, while a checkpoint is written, and in inference. 0 waits for "
            "ever."},

    {CHOICE(parallel.shard, DECK_SHARD_NONE, "none", "optimizer", "gradients", "full", "auto"), .restart = RESTART_TOLD,
     .doc = "What the ranks of a sharding group hold once between them, each a cut: nothing; master weights and "
            "moments; gradients too; weights too, which are then gathered layer by layer, in forward and in backward. "
            "\"auto\" chooses, of what fits, the layout with which a step takes the least. Bytes a parameter of each, "
            "and how it chooses: doc/parallel.md."},
    {INT(parallel.shard_size, 0, 0, INDEX), .unit = "ranks", .restart = RESTART_TOLD,
     .doc = "Ranks of a sharding group, that follow one another; groups hold the same (hybrid sharding: a node's ranks "
            "in a group). 0 is all; with parallel.shard = \"auto\" it is chosen."},
    {CHOICE(parallel.reduce, DECK_REDUCE_AUTO, "auto", "micro_batch", "step"), .restart = RESTART_TOLD,
     .doc =
         "With parallel.shard = \"gradients\" or \"full\": when gradients are summed over ranks, in each micro-batch, "
         "or once a step, for which each rank holds all (4 bytes a parameter). \"auto\" is \"micro_batch\"."},
    {CHOICE(parallel.reduce_as, DECK_COMPUTE_FP32, "fp32", "bf16"), .restart = RESTART_TOLD,
     .doc = "Type in which gradients travel within a sharding group; they are added in fp32 in either case."},
    {INT(parallel.context, 1, 0, INDEX), .unit = "ranks", .restart = RESTART_TOLD,
     .doc = "Ranks that share each row of tokens, for rows too long for one; a divisor of the rank count. 0 is 1 or, "
            "where nothing fits then, the smallest number with which it does."},
    {CHOICE(parallel.context_method, DECK_CONTEXT_AUTO, "auto", "gather", "heads", "ring"), .restart = RESTART_TOLD,
     .doc = "How attention sees the whole row: it gathers keys and values; it exchanges tokens for heads; or keys and "
            "values go round the ranks. \"auto\" is \"heads\" where parallel.context divides model.kv_heads, else "
            "\"gather\"."},
    {INT(parallel.pipeline, 1, 1, 64), .unit = "stages", .restart = RESTART_TOLD,
     .doc =
         "Stages of a pipeline: each has the layers of a part of the model, and micro-batches go through all of them. "
         "A divisor of the rank count. parallel.shard shares the state of a stage among the ranks of that stage; "
         "\"gradients\" and \"full\" then communicate in each micro-batch (doc/parallel.md)."},
    {INT(parallel.virtual, 1, 1, 32), .restart = RESTART_TOLD,
     .doc =
         "Parts of the model that a stage has, which do not follow one another (interleaved schedule): the stages wait "
         "so many times less, and send so many times more. A step then needs a multiple of parallel.pipeline "
         "micro-batches."},
    {CHOICE(parallel.stages, DECK_STAGES_COST, "cost", "layers", "ends"), .restart = RESTART_TOLD,
     .doc = "How layers are dealt out to these parts, as evenly as can be: by what they cost, the head's products "
            "included; by their number alone; or by their number, where embedding and head count as one layer each "
            "(\"ends\")."},

    {INT(parallel.tensor, 1, 1, INDEX), .unit = "ranks", .restart = RESTART_TOLD,
     .doc = "Ranks that share each layer: each has a part of the heads, of the MLP and of the vocabulary's rows in "
            "embedding and head, for the same tokens. They follow one another, so a node has all of them where it "
            "divides into such groups. A divisor of the rank count, of "
            "model.heads and of model.ffn, that divides model.kv_heads or is a multiple of it."},
    {BOOL(parallel.sequence, true), .restart = RESTART_TOLD,
     .doc = "With parallel.tensor above 1: between the linear layers, where each token is on its own (norms and "
            "residuals), each of these ranks has a part of the tokens. Costs no transfers, and saves memory."},

    {CHOICE(precision.compute, DECK_COMPUTE_FP32, "fp32", "bf16"), .restart = RESTART_TOLD,
     .doc = "Storage of activations and of the weights that matrix products read; master weights and sums are fp32."},
    {CHOICE(precision.recipe, DECK_RECIPE_NONE, "none", "delayed", "current", "row", "block", "mxfp8", "nvfp4"),
     .restart = RESTART_TOLD,
     .doc = "How the linear layers of the blocks are quantized, in all three products (doc/precision.md says how to "
            "choose). 8-bit floats: \"delayed\" one scale for a tensor, from the steps before; \"current\" one, from "
            "the tensor itself; \"row\" one for each row; \"block\" one for 128 values, of weights for 128 x 128. "
            "\"mxfp8\" and \"nvfp4\", of 32 and 16 values in 8 and 4 bits, are emulated: their numbers without "
            "their speed. \"none\" has precision.compute throughout."},
    {CHOICE(precision.format, DECK_FP8_AUTO, "auto", "e4m3", "hybrid"), .restart = RESTART_TOLD,
     .doc = "8-bit format: \"e4m3\", or \"hybrid\" with gradients in e5m2, which has more range and fewer digits. "
            "\"auto\" is e4m3 for \"block\" and \"mxfp8\", else hybrid."},
    {CHOICE(precision.accumulate, DECK_ACCUMULATE_AUTO, "auto", "fast", "split"), .restart = RESTART_TOLD,
     .doc = "Sums of 8-bit products in forward on a GPU: \"fast\" in fewer bits than fp32, which biases long sums "
            "towards 0, or \"split\" in fp32 every so many products. \"auto\" is split for \"block\", else fast. "
            "Backward is always split."},
    {CHOICE(precision.weight_gradients, DECK_WEIGHT_GRADIENTS_QUANTIZED, "quantized", "compute"),
     .restart = RESTART_TOLD,
     .doc = "Products that give the weights' gradients: of quantized operands like the others, or in "
            "precision.compute."},
    {CHOICE(precision.weight_copies, DECK_WEIGHT_COPIES_KEPT, "kept", "made"), .restart = RESTART_TOLD,
     .doc =
         "Copies of quantized weights: \"kept\" in memory from update to update (2 bytes a weight, 4 where the format "
         "is emulated), or \"made\" for each product of each micro-batch: up to 1 % of a step of one micro-batch."},
    {BOOL(precision.masters, true), .restart = RESTART_TOLD,
     .doc = "false: weights, gradients and moments are bf16 alone, 8 bytes a parameter; small updates of large weights "
            "are lost. Needs precision.compute = \"bf16\"."},
    {CHOICE(precision.gradients, DECK_COMPUTE_FP32, "fp32", "bf16"), .restart = RESTART_TOLD,
     .doc = "How gradients are kept between a micro-batch and the update. \"bf16\": 2 bytes a parameter for 4; what "
            "micro-batches and ranks add is summed in fp32, and rounded after each micro-batch. Faster where a step is "
            "one micro-batch of one rank, whose products then write it. Needs precision.compute = \"bf16\"."},
    {INT(precision.first_layers_bf16, 0, 0, LAYERS), .unit = "layers", .restart = RESTART_TOLD,
     .doc = "So many layers at the start of the model are not quantized, whatever the lists below say."},
    {INT(precision.last_layers_bf16, 0, 0, LAYERS), .unit = "layers", .restart = RESTART_TOLD,
     .doc = "So many layers at its end, likewise."},
    {STRING(precision.fp8_layers, "auto"), .restart = RESTART_TOLD,
     .doc = "Layers in 8 bits, counted from 1: \"2-5,9\"; \"\" for none. \"auto\" is all that precision.fp4_layers "
            "does not name; with recipe \"nvfp4\" it is none, and layers named here are \"mxfp8\"."},
    {STRING(precision.fp4_layers, "auto"), .restart = RESTART_TOLD,
     .doc = "Layers in NVFP4, likewise, beside any recipe; no layer may be in both lists. \"auto\" is none, but with "
            "recipe \"nvfp4\" all that precision.fp8_layers does not name."},
    {STRING(precision.linears, "qkv,o,up,down"), .restart = RESTART_TOLD,
     .doc = "The linear layers of a block that are quantized, commas between: the product of queries, keys and "
            "values, the attention's output, and the MLP's first (with the gate) and second product."},
    {BOOL(precision.head, false), .restart = RESTART_TOLD,
     .doc = "Quantize the head's products as well, as the layers in 8 bits are."},
    {REAL(precision.margin, 0, 0, 32), .restart = RESTART_TOLD,
     .doc = "\"delayed\": scales leave room for values 2^margin times the largest seen."},
    {INT(precision.history, 1024, 1, LAYERS), .unit = "steps", .restart = RESTART_TOLD,
     .doc = "\"delayed\": steps whose largest absolute values (amax) are remembered."},
    {CHOICE(precision.amax, DECK_AMAX_MAXIMUM, "maximum", "latest"), .restart = RESTART_TOLD,
     .doc = "\"delayed\": the amax that makes the scale, the largest remembered or the last step's."},
    {BOOL(precision.power_of_two, true), .restart = RESTART_TOLD,
     .doc = "\"row\" and \"block\": scales are powers of two, so that scaling rounds nothing."},
    {BOOL(precision.stochastic_rounding, true), .restart = RESTART_TOLD,
     .doc = "NVFP4: gradients are rounded up or down at random, right on average; the same again after a restart."},
    {BOOL(precision.hadamard, true), .restart = RESTART_TOLD,
     .doc = "NVFP4: the operands of weight gradients go through a random Hadamard transform of 16 values, which "
            "spreads outliers."},

    {INT(statistics.every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "At every so many steps, and at step 1, measure what quantization loses in each layer (doc/precision.md, "
            "Statistics); it goes to log.jsonl, TensorBoard and `cistron report`. 0 is off. Results do not change by a "
            "bit."},
    {STRING(statistics.layers, ""), .restart = RESTART_FREE,
     .doc = "Layers that are measured, counted from 1: \"2-5,9\"; those that are not quantized are left out. \"\" is "
            "all that are quantized, and the head with precision.head."},
    {INT(statistics.start, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "First step that may be measured."},
    {INT(statistics.stop, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Last step that may be measured; 0 is no end."},

    {CHOICE(memory.recompute, DECK_RECOMPUTE_NORMS, DECK_RECOMPUTE_NAMES, "fit"), .restart = RESTART_FREE,
     .doc =
         "What backward computes again instead of keeping it: norm outputs alone; or, each name including those "
         "before it: the activation's output, norm outputs, the MLP's first product, the q, k, v product, attention, "
         "everything but a block's input. \"fit\" chooses for each layer what costs least with which a rank's "
         "memory suffices; on a GPU it also offloads layers (memory.offload_layers) where that is hidden behind the "
         "computation and spares products. Results do not change by a bit."},
    {STRING(memory.recompute_layers, ""), .restart = RESTART_FREE,
     .doc = "Layers with another policy than memory.recompute, counted from 1: \"full:1-8,qkv:9-12,20\". Not with "
            "memory.recompute = \"fit\", which chooses for all."},
    {STRING(memory.offload_layers, ""), .restart = RESTART_FREE,
     .doc = "Layers, counted from 1 (\"1-8,20\"), whose kept tensors wait in the host's memory from forward to "
            "backward, all but their outputs; copies run beside the computation. For devices with memory of their own. "
            "Results do not change by a bit."},
    {STRING(memory.fitted_layers, ""), .restart = RESTART_FREE,
     .doc =
         "Written by a run with memory.recompute = \"fit\": what it has chosen, as memory.recompute_layers has it, of "
         "all layers. A run that goes on with as many ranks takes it again where it still fits."},
    {STRING(memory.fitted_offload, ""), .restart = RESTART_FREE,
     .doc = "Written likewise: the layers that it offloads, where memory.offload_layers names none."},
    {INT(memory.head_tokens, 1024, 0, INDEX), .unit = "tokens", .restart = RESTART_TOLD,
     .doc =
         "Tokens whose logits are in memory at a time: a chunk. Each chunk reads and writes the gradient of the "
         "head's matrix. 0: the program chooses, as many as pay for their memory, and more where that is left over."},
    {INT(memory.fitted_head_tokens, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_FREE,
     .doc = "Written by a run with memory.head_tokens = 0: what it has chosen. A run that goes on with as many ranks "
            "takes it again where it still fits."},
};

const int deck_table_rows = sizeof deck_table / sizeof deck_table[0];

_Static_assert(sizeof deck_table / sizeof deck_table[0] <= DECK_MAXIMUM_KEYS, "struct deck has a mark for each key");

const char *const deck_restarts[RESTARTS] = {
    [RESTART_FREE] = "what the run computes does not hang on it",
    [RESTART_TOLD] = "counts from the next step on",
    [RESTART_TENSORS] = "the checkpoint's tensors are made for it",
    [RESTART_MODEL] = "the same weights would be another model",
    [RESTART_START] = "only the start weights hang on it",
    [RESTART_LABELS] = "losses before and after would be of other labels",
    [RESTART_DATA] = "the place in the data would be another one",
};
