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
#define LONGEST_WINDOW 1073741824.0 /* ATTENTION_LONGEST_WINDOW */
#define INDEX 2147483647.0          /* largest 32-bit index */
#define EXACT 9007199254740992.0    /* 2^53: the largest bound a double holds exactly */

const struct deck_row deck_table[] = {
    {STRING(model.preset, ""), .restart = RESTART_TENSORS,
     .doc = "Name of a published model whose sizes are used; \"\" for none. Keys of this section override the preset's "
            "values."},
    {CHOICE(model.family, DECK_FAMILY_PRESET, "preset" DECK_FAMILIES(FAMILY_NAME)), .restart = RESTART_TENSORS,
     .doc =
         "Form of the blocks and the head. \"preset\" is the preset's family, or \"llama\" without a preset. \"qwen2\" "
         "(also Qwen 2.5) is a Llama with biases of q, k and v, \"qwen3\" one with norms of q and k (QK norm), "
         "\"mistral\" one with a sliding window (model.sliding_window), \"mixtral\" one with a mixture of "
         "experts in place of each MLP, \"olmo2\" one with norms after attention and MLP; \"esmc\" is ESM C, \"ntv2\" "
         "the Nucleotide Transformer v2."},
    {CHOICE(model.objective, DECK_OBJECTIVE_FAMILY, "family", "causal", "masked"), .restart = RESTART_MODEL,
     .doc =
         "\"causal\": a token sees earlier tokens, and the model predicts the next one. \"masked\": a token sees all, "
         "and the model predicts masked tokens (data.mask_probability), which needs a tokenizer with a mask token. "
         "\"family\": masked for \"esm2\", \"esmc\", \"ntv2\" and \"amplify\", else causal."},
    {PATH(model.initialise_from, ""), .restart = RESTART_FREE,
     .doc = "Checkpoint file or run folder with the initial weights of a new run, for example the result of `cistron "
            "import`; \"\" initialises from train.seed. Unset keys of this section take the file's values; sizes that "
            "are set must equal the file's. Step, data and learning rate start at the beginning (train.resume "
            "continues them). A run that has a checkpoint of its own resumes from that, and no longer needs the file."},
    {BOOL(model.initialise_optimizer, false), .restart = RESTART_FREE,
     .doc = "Also load the optimizer's moments and update count from model.initialise_from, which must then be a step "
            "checkpoint; otherwise the moments start at 0."},
    {INT(model.layers, 0, 0, LAYERS), .restart = RESTART_TENSORS,
     .doc = "Number of transformer blocks; 0 uses the preset's."},
    {INT(model.hidden, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Width of the residual stream; 0 uses the preset's."},
    {INT(model.ffn, 0, 0, WIDTH), .restart = RESTART_TENSORS, .doc = "Inner width of the MLP; 0 uses the preset's."},
    {INT(model.heads, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Query heads of attention; 0 uses the preset's."},
    {INT(model.kv_heads, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Key and value heads, shared by groups of query heads; 0 uses the preset's, or model.heads without one."},
    {INT(model.head_dim, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Width of a head; 0 uses the preset's, or model.hidden / model.heads without one."},
    {INT(model.vocabulary, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_TENSORS,
     .doc = "Rows of the embedding; 0 uses the preset's, or the token store's vocabulary without one."},
    {INT(model.positions, 0, 0, LARGE), .unit = "tokens", .restart = RESTART_FREE,
     .doc =
         "Longest sequence that the model is made for (max_position_embeddings of config.json; ESM-2 counts two more). "
         "Longer windows are refused in training, eval and score, and exports state it. Set it to train on longer "
         "sequences. 0 uses the preset's, and in an export the longest window; without a preset there is no limit in "
         "training, and eval and score take the windows of the training."},
    {INT(model.sliding_window, -1, -1, LONGEST_WINDOW), .unit = "tokens", .restart = RESTART_MODEL,
     .doc = "Sliding window attention of causal models: a token sees itself and the sliding_window - 1 tokens before "
            "it (Mistral 7B v0.1: 4096); 0: all of them. -1 uses the preset's, or none without one."},
    {INT(model.max_window_layers, 0, 0, LAYERS), .restart = RESTART_MODEL,
     .doc = "Number of the first layers that see all tokens in spite of model.sliding_window (Qwen)."},
    {CHOICE(model.tied, DECK_TIED_PRESET, "preset", "yes", "no"), .restart = RESTART_TENSORS,
     .doc = "Whether the head shares the embedding's matrix; without a preset, \"esm2\" does."},
    {BOOL(model.attention_bias, false), .restart = RESTART_TENSORS,
     .doc = "\"llama\", \"qwen3\" and \"olmo2\": the linear layers of attention (q, k, v and o) have biases."},
    {BOOL(model.mlp_bias, false), .restart = RESTART_TENSORS,
     .doc = "\"llama\": the linear layers of the MLP have biases."},
    {INT(model.num_local_experts, 0, 0, 256), .restart = RESTART_TENSORS,
     .doc = "\"mixtral\": experts of each block, each an MLP of width model.ffn; 0 means 8."},
    {INT(model.num_experts_per_tok, 0, 0, 256), .restart = RESTART_MODEL,
     .doc = "\"mixtral\": experts that the router chooses for each token; 0 means 2."},
    {REAL(model.router_aux_loss_coef, 0.001, 0, 1e6), .restart = RESTART_LOGGED,
     .doc = "\"mixtral\": weight of the auxiliary loss that balances the load of the experts; 0 turns it off. It is "
            "added in training, and the reported loss is without it. Mixtral 8x7B was published with 0.02."},
    {CHOICE(model.head, DECK_HEAD_LM, "lm", "sequence", "token", "none"), .restart = RESTART_TENSORS,
     .doc =
         "What the model's last layers compute. \"lm\": tokens, as in pretraining. \"sequence\": a class or numbers "
         "for each sequence, as transformers' ...ForSequenceClassification. \"token\": a class for each token, as "
         "...ForTokenClassification. These two learn from labels in the token stores (cistron prepare --labels). "
         "\"none\": nothing, in checkpoints of an imported EsmModel, which cistron embed reads and from which a model "
         "with a head starts."},
    {INT(model.num_labels, 0, 0, WIDTH), .restart = RESTART_TENSORS,
     .doc = "Classes of a fine-tuning head, or numbers of a sequence."},
    {CHOICE(model.problem_type, DECK_PROBLEM_CLASSIFICATION, "classification", "regression"),
     .restart = RESTART_TENSORS,
     .doc = "Loss of a fine-tuning head: cross-entropy of one class, or the mean squared error of model.num_labels "
            "numbers per sequence."},
    {CHOICE(model.pooling, DECK_POOLING_AUTO, "auto", "first", "last", "mean"), .restart = RESTART_TENSORS,
     .doc =
         "What the head \"sequence\" reads: the state of the first token or of the last one, or the mean over the "
         "tokens that are not special. \"auto\" is the first token of masked models and the last one of causal models, "
         "as transformers' classes read it."},
    {STRING(model.id2label, ""), .restart = RESTART_FREE,
     .doc = "Names of a fine-tuning head's classes, or of its numbers, in order and separated by commas, for exports; "
            "\"\" uses those of data.train."},
    {BOOL(model.norm_zero_centered, false), .restart = RESTART_MODEL,
     .doc = "Store the gains of norms as their distance from 1 (Megatron's --apply-layernorm-1p): they start at 0, "
            "bf16 keeps more of their digits, and weight decay, if optimizer.decay includes norms, pulls gains to 1. "
            "No Hugging Face model does so: an export is refused."},
    {CHOICE(model.gelu, DECK_GELU_ERF, "erf", "tanh"), .restart = RESTART_MODEL,
     .doc = "GELU of the blocks of \"esm2\": exact, or by tanh as in TransformerEngine. The head's is always exact."},
    {BOOL(model.token_dropout, true), .restart = RESTART_MODEL,
     .doc = "\"esm2\": embeddings of mask tokens are 0, and the embeddings of each sequence are scaled by (1 - 0.12) / "
            "(1 - share of its masked tokens)."},
    {REAL(model.rope_theta, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "Base of the rotary frequencies; 0 uses the preset's, or 10000 without one."},
    {CHOICE(model.rope_rounding, DECK_ROUNDING_NONE, "none", "fp16", "bf16"), .restart = RESTART_MODEL,
     .doc = "Type to which the rotary frequencies are rounded, for models whose table was stored in 16 bits; an import "
            "sets it."},
    {REAL(model.norm_eps, 0, 0, 1), .restart = RESTART_MODEL,
     .doc = "Added to the mean square or variance inside norms; 0 uses the preset's, or 1e-5 without one."},
    {REAL(model.init_std, 0, 0, INFINITY), .restart = RESTART_START,
     .doc = "Standard deviation of the initial matrices, in \"amplify\" the bound of their uniform distribution; 0 "
            "uses the preset's, or 0.02 without one."},
    {BOOL(model.scaled_init, false), .restart = RESTART_START,
     .doc = "Divide the initial standard deviation of the attention and MLP output projections by sqrt(2 layers)."},
    {BOOL(model.spike_no_more, false), .restart = RESTART_TENSORS,
     .doc = "Against loss spikes: initialise the embedding with standard deviation 1, untie the head, and exclude the "
            "embedding from weight decay."},
    {CHOICE(model.rope_scaling.type, DECK_ROPE_LLAMA3, "llama3", "linear", "yarn"), .restart = RESTART_MODEL,
     .doc = "Rope scaling, with a factor above 1: \"llama3\" stretches long wavelengths, \"linear\" all, \"yarn\" "
            "those of "
            "the last pairs of a head, and multiplies queries and keys (Qwen beyond 32,768 tokens)."},
    {REAL(model.rope_scaling.factor, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "Factor by which wavelengths are stretched; 0 uses the preset's, or none without one."},
    {REAL(model.rope_scaling.low, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "Wavelengths beyond original / low are stretched by the whole factor; 0 uses the preset's. \"yarn\": "
            "beta_slow, 0 is 1."},
    {REAL(model.rope_scaling.high, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "Wavelengths below original / high are not stretched; 0 uses the preset's. \"yarn\": beta_fast, 0 is 32."},
    {INT(model.rope_scaling.original, 0, 0, LARGE), .unit = "tokens", .restart = RESTART_MODEL,
     .doc = "Context length before the stretching; 0 uses the preset's."},
    {REAL(model.rope_scaling.attention_factor, 0, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "\"yarn\": factor of rotated queries and keys; 0 is 0.1 ln(factor) + 1."},

    {INT(train.steps, 1000, 1, LARGE), .unit = "steps", .restart = RESTART_LOGGED,
     .doc = "Step at which the run ends."},
    {REAL(train.epochs, 0, 0, 1e6), .unit = "epochs", .restart = RESTART_LOGGED,
     .doc = "Length of the run in epochs of data.train, such as 3 or 0.5: the program sets train.steps. 0 uses "
            "train.steps."},
    {INT(train.global_batch, 16, 1, INDEX), .unit = "rows", .restart = RESTART_LOGGED,
     .doc = "Rows of data.row_tokens tokens per step, over all ranks and micro-batches."},
    {INT(train.micro_batch, 4, 1, INDEX), .unit = "rows", .restart = RESTART_LOGGED,
     .doc = "Rows that a rank processes at a time; gradients are accumulated over the micro-batches of a step."},
    {INT(train.seed, 42, 0, EXACT), .restart = RESTART_DATA,
     .doc = "Seed of the initial weights and of the order of the data."},
    {PATH(train.resume, "auto"), .restart = RESTART_FREE,
     .doc = "\"auto\" resumes from the newest good checkpoint of output.folder, or starts a new run. \"never\" starts "
            "a new run and refuses a folder that has one. Otherwise a checkpoint file or run folder to continue from, "
            "with its step, data and optimizer (model.initialise_from loads weights only); once the run has a "
            "checkpoint of its own, it resumes from that."},
    {STRING(train.walltime, ""), .restart = RESTART_FREE,
     .doc = "Time limit of the program from its start, as in Slurm (\"90\" minutes, \"04:00:00\", \"1-12:00:00\"). The "
            "run stops before it, after a checkpoint, with exit code 85; \"\" for no limit."},
    {BOOL(train.reproducible, false), .restart = RESTART_LOGGED,
     .doc = "The same bits of losses, gradients and updates on any number of ranks, at any sharding level, with the "
            "same train.global_batch, train.micro_batch, parallel.context and memory.head_tokens: contributions of "
            "micro-batches and ranks are rounded so that their sums are exact. Needs up to 8 bytes per parameter more, "
            "and device.deterministic. The kind of device and the threads of a CPU must be the same."},
    {CHOICE(train.on_divergence, DECK_DIVERGENCE_STOP, "stop", "skip", "rewind"), .restart = RESTART_LOGGED,
     .doc = "If the loss or gradient of a step is not finite, its update is never made. \"stop\" ends the run with "
            "exit code 3. \"skip\" continues with the next step, and ends the run at the tenth skip in a row. "
            "\"rewind\" returns to the last checkpoint and skips the rows up to the bad step's; it ends the run "
            "without a checkpoint, or after five returns to one checkpoint."},

    {CHOICE(train.freeze, DECK_FREEZE_NONE, "none", "trunk"), .restart = RESTART_TENSORS,
     .doc = "Parameters that are not trained. \"trunk\": embedding and blocks, so that only the head is. They have no "
            "gradients, moments or fp32 masters: with precision.compute = \"bf16\" they are rounded to bf16. The "
            "backward ends at the head. Not with a tied head, whose matrix is the embedding's. With lora.rank the "
            "trunk is frozen in any case, and \"trunk\" means that the head is trained too."},

    {STRING(train.class_weights, ""), .restart = RESTART_LOGGED,
     .doc = "Weights of the classes in the loss of a fine-tuning head (torch's CrossEntropyLoss): a number for each, "
            "separated by commas, or \"balanced\": inverse to their frequency in data.train. \"\": all are 1."},
    {REAL(train.z_loss, 0, 0, INFINITY), .restart = RESTART_LOGGED,
     .doc = "Weight of the z-loss: the mean over labels of log^2 Z, with Z the softmax's denominator, is added in "
            "training "
            "and keeps logits near 0. PaLM has 1e-4, OLMo 2 1e-5; 0 turns it off. Reported and validation losses are "
            "without it. Not with a fine-tuning head."},
    {INT(train.recheck_every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Silent corruption: every this many steps all ranks compute one micro-batch, and ranks that must have the "
            "same loss, gradients, weights or moments are compared. If one differs, it is named with host and device, "
            "and the run ends with exit code 1 before it saves. Bit for bit on CPUs and with device.deterministic, "
            "else within bounds (doc/errors.md). 0 is off. Results are bitwise unchanged."},

    {INT(lora.rank, 0, 0, 65536), .restart = RESTART_TENSORS,
     .doc = "Rank of LoRA's adapters, peft's r; 0 trains without adapters. With a rank only the adapters are trained "
            "(doc/lora.md)."},
    {REAL(lora.alpha, 8, 0, INFINITY), .restart = RESTART_MODEL,
     .doc = "The adapters' outputs are multiplied by lora.alpha / lora.rank, as with peft's lora_alpha."},
    {REAL(lora.dropout, 0, 0, 1), .below_maximum = true, .restart = RESTART_LOGGED,
     .doc = "Probability that an element of an adapter's input is dropped in training, as peft's lora_dropout."},
    {STRING(lora.targets, "all-linear"), .restart = RESTART_TENSORS,
     .doc = "The linear layers with adapters: names with commas between them, such as \"q_proj,v_proj\", as peft's "
            "target_modules: each module whose name it is or ends with. \"all-linear\": all of the blocks."},

    {CHOICE(optimizer.kind, DECK_OPTIMIZER_ADAMW, "adamw", "muon"), .restart = RESTART_TENSORS,
     .doc = "\"muon\": the matrices of the blocks have the optimizer Muon, embedding, head, norms and biases AdamW "
            "(doc/optimizers.md). Not with lora.rank or train.freeze, which leave no such matrix to train."},
    {REAL(optimizer.lr, 1e-3, 0, INFINITY), .above_minimum = true, .restart = RESTART_LOGGED,
     .doc = "Peak learning rate of AdamW, and of Muon unless optimizer.muon.lr is set."},
    {REAL(optimizer.decoupled_lr, 0, 0, INFINITY), .restart = RESTART_LOGGED,
     .doc = "Peak learning rate of the embedding and head matrices, if they have their own; 0 uses optimizer.lr. A "
            "tied head uses the embedding's."},
    {REAL(optimizer.beta1, 0.9, 0, 1), .below_maximum = true, .restart = RESTART_LOGGED,
     .doc = "Decay of the first moment per step."},
    {REAL(optimizer.beta2, 0.95, 0, 1), .below_maximum = true, .restart = RESTART_LOGGED,
     .doc = "Decay of the second moment per step."},
    {REAL(optimizer.eps, 1e-8, 1e-35, INFINITY), .restart = RESTART_LOGGED,
     .doc = "Added to the root of the second moment, in fp32."},
    {REAL(optimizer.weight_decay, 0.1, 0, INFINITY), .restart = RESTART_LOGGED,
     .doc = "Decoupled weight decay, multiplied by the learning rate; 0 is off."},
    {CHOICE(optimizer.decay, DECK_DECAY_MATRICES, "all", "matrices", "matrices_not_embedding"),
     .restart = RESTART_LOGGED, .doc = "Parameters that have weight decay."},
    {REAL(optimizer.clip, 1.0, 0, INFINITY), .restart = RESTART_LOGGED,
     .doc = "Maximum global L2 norm of the gradients, which are scaled down to it; 0 is off."},
    {REAL(optimizer.muon.lr, 0, 0, INFINITY), .restart = RESTART_LOGGED,
     .doc = "Peak learning rate of Muon, with the same schedule; 0 uses optimizer.lr. Recipes with adjust_lr_fn = "
            "\"original\" have about 0.02."},
    {REAL(optimizer.muon.momentum, 0.95, 0, 1), .below_maximum = true, .restart = RESTART_LOGGED,
     .doc = "Decay of Muon's momentum per step."},
    {BOOL(optimizer.muon.nesterov, true), .restart = RESTART_LOGGED,
     .doc = "Nesterov momentum: the step contains the new gradient once more."},
    {INT(optimizer.muon.ns_steps, 5, 0, 99), .restart = RESTART_LOGGED,
     .doc = "Steps of the Newton-Schulz iteration that orthogonalizes the momentum."},
    {CHOICE(optimizer.muon.adjust_lr_fn, DECK_ADJUST_MATCH_RMS_ADAMW, "original", "match_rms_adamw",
            "spectral_unclamped"),
     .restart = RESTART_LOGGED,
     .doc = "Factor of Muon's learning rate for a matrix of A outputs and B inputs, as in torch.optim.Muon: "
            "\"original\" sqrt(max(1, A / B)), \"match_rms_adamw\" 0.2 sqrt(max(A, B)), with which steps are as large "
            "as AdamW's, \"spectral_unclamped\" sqrt(A / B)."},

    {CHOICE(schedule.kind, DECK_SCHEDULE_COSINE, "cosine", "linear", "constant"), .restart = RESTART_LOGGED,
     .doc = "Shape of the learning rate's decay after the warm-up."},
    {CHOICE(schedule.rule, DECK_RULE_RECIPE, "recipe", "megatron", "nemo"), .restart = RESTART_LOGGED,
     .doc = "Learning rate of update s, from 0, in the warm-up, as a share of the peak: \"recipe\" s / warmup (the "
            "first update has rate 0), \"megatron\" (s + 1) / warmup, \"nemo\" (s + 1) / (warmup + 1)."},
    {CHOICE(schedule.unit, DECK_COUNT_STEPS, "steps", "samples"), .restart = RESTART_LOGGED, .was = "schedule.count",
     .doc = "Unit of schedule.warmup, schedule.hold and schedule.decay: steps, or rows (train.global_batch per step)."},
    {INT(schedule.warmup, 0, 0, LARGE), .unit = "steps or samples", .restart = RESTART_LOGGED,
     .doc = "Length of the linear warm-up from 0 to optimizer.lr."},
    {INT(schedule.hold, 0, 0, LARGE), .unit = "steps or samples", .restart = RESTART_LOGGED,
     .doc = "Length of the constant part at optimizer.lr between warm-up and decay (warm-up, stable, decay)."},
    {INT(schedule.decay, 0, 0, LARGE), .unit = "steps or samples", .restart = RESTART_LOGGED,
     .doc = "Length of the decay after schedule.warmup and schedule.hold; 0 uses the rest of train.steps."},
    {REAL(schedule.min_ratio, 0.05, 0, 1), .restart = RESTART_LOGGED,
     .doc = "Final learning rate, as a share of optimizer.lr."},
    {REAL(schedule.decoupled_min_ratio, 0.05, 0, 1), .restart = RESTART_LOGGED,
     .doc = "Final learning rate of embedding and head, as a share of optimizer.decoupled_lr; unused if that is 0."},

    {CHOICE(data.source, DECK_DATA_STORE, "store", "random"), .restart = RESTART_DATA,
     .doc = "\"random\" trains on random data for benchmarks, the same on any number of ranks: tokens uniform over the "
            "model's vocabulary (masked models: their tokenizer's), in an endless stream of sequences. data.train, "
            "data.weights and data.valid are then ignored."},
    {INT(data.random_median, 0, 0, LARGE), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Random data: median of the log-normal sequence lengths, before they are split into windows; 0, with "
            "data.random_mean = 0: each sequence fills one window."},
    {INT(data.random_mean, 0, 0, LARGE), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Random data: mean of the sequence lengths."},
    {PATHS(data.train, ""), .restart = RESTART_LOGGED,
     .doc = "Token store to train on, made by `cistron prepare`; several separated by commas, or a list (\"a.h5\", "
            "\"b,c.h5\"). In one string a comma of a path is written \\\\, (on the command line \\,). shards/*.h5 "
            "stands for all matching files, in order. At most 4096. PREFIX of PREFIX.bin and PREFIX.idx names a "
            "Megatron data set, and shards/*.idx several. A resumed run may have others: stores that remain, "
            "recognised by content, continue at their position (doc/errors.md)."},
    {STRING(data.weights, ""), .restart = RESTART_LOGGED,
     .doc = "Share of windows drawn from each store of data.train, separated by commas (positive numbers, scaled to "
            "sum to 1); \"\" draws in proportion to the stores' windows. A run and `cistron plan` report how often "
            "each store is repeated, and warn above 10 times."},
    {PATH(data.valid, ""), .restart = RESTART_LOGGED,
     .doc = "Token store, or prefix of a Megatron data set, for validation; \"\" for none."},
    {STRING(data.split_ratios, ""), .restart = RESTART_DATA, .was = "data.parts",
     .doc =
         "Megatron data sets: shares of documents for training, validation and test, as Megatron's --split. With "
         "\"949,50,1\" data.train is the first 94.9 % and data.valid the next 5 %; \"\" uses all documents for each."},
    {PATH(data.tokenizer, ""), .restart = RESTART_DATA,
     .doc = "Megatron data sets: the tokenizer that made their ids, as in `cistron prepare --tokenizer`; \"\" treats "
            "them as ids below model.vocabulary without meaning."},
    {CHOICE(data.order, DECK_ORDER_OWN, "own", "megatron"), .restart = RESTART_DATA,
     .doc = "\"megatron\": each step has the rows of Megatron-LM's step: its order, epochs and blending by train.seed, "
            "train.steps x train.global_batch and data.weights. Needs Megatron data sets, and on each rank 12 bytes of "
            "memory per row and 4 per document and epoch. data.shuffle is then ignored."},
    {INT(data.row_tokens, 1024, 1, WIDTH), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Length of a row; a multiple of 16. Batches consist of rows."},
    {INT(data.window, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Maximum length of a window of a sequence, special tokens included; 0 uses data.row_tokens."},
    {INT(data.overlap, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_DATA,
     .doc = "Tokens that neighbouring windows of a sequence share."},
    {BOOL(data.truncate, false), .restart = RESTART_DATA,
     .doc = "Use only the first window of each sequence. Needs special tokens around each window, and no overlap."},
    {INT(data.max_segments, 64, 1, INDEX), .restart = RESTART_DATA, .doc = "Maximum number of windows in one row."},
    {CHOICE(data.format, DECK_FORMAT_PACKED, "packed", "padded"), .restart = RESTART_DATA,
     .doc = "\"packed\" rows contain windows end to end, \"padded\" rows one window each and padding."},
    {BOOL(data.split, true), .restart = RESTART_DATA,
     .doc = "Packed rows: split a window that does not fit, and begin the next row with its rest, instead of padding. "
            "Never with a fine-tuning head (model.head)."},
    {CHOICE(data.special_tokens, DECK_SPECIAL_WINDOW, "window", "sequence"), .restart = RESTART_DATA,
     .doc = "Put begin and end tokens around each window, or only at the ends of whole sequences."},
    {BOOL(data.bos, true), .restart = RESTART_DATA,
     .doc = "Use the begin token. Text tokenizers often have only this one: then set data.eos to false."},
    {BOOL(data.eos, true), .restart = RESTART_DATA, .doc = "Use the end token. Masked models need both."},
    {BOOL(data.mask_degenerate, true), .restart = RESTART_LABELS,
     .doc = "Nucleotides: no loss on tokens other than A, C, G, T, a, c, g, t."},
    {BOOL(data.uppercase_labels, false), .restart = RESTART_LABELS,
     .doc = "Nucleotides: predict upper case for lower-case letters; inputs are unchanged."},
    {REAL(data.reverse_complement, 0, 0, 1), .restart = RESTART_DATA,
     .doc =
         "Nucleotides: probability that a window is read from the other strand, as its reverse complement. Drawn again "
         "in each epoch. Not in validation. Needs data.special_tokens = \"window\"."},
    {REAL(data.mask_probability, 0.15, 0, 1), .above_minimum = true, .below_maximum = true, .restart = RESTART_LABELS,
     .doc = "Masked models: probability that a token is selected for prediction. Of the selected tokens 80 % are "
            "replaced by the mask token, 10 % by a random token, and 10 % stay. Special tokens are never selected."},
    {BOOL(data.shuffle, true), .restart = RESTART_DATA,
     .doc = "Draw windows in a random order that differs by epoch; false keeps the store's order."},
    {BOOL(data.balance, true), .restart = RESTART_FREE,
     .doc = "Load balancing: assign the micro-batches of a step to ranks so that ranks that synchronise have equal "
            "work, estimated from the squares of the segment lengths. The contents of micro-batches do not change."},

    {INT(validation.every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Validate on data.valid every this many steps, and after the last; 0 only after the last."},
    {INT(validation.rows, 64, 0, LARGE), .unit = "rows", .restart = RESTART_LOGGED,
     .doc = "Rows of the fixed validation set, from the start of the store; 0 uses all."},
    {CHOICE(validation.metric, DECK_METRIC_LOSS, "loss", "accuracy", "f1", "mcc", "auc", "spearman", "r2"),
     .restart = RESTART_LOGGED,
     .doc =
         "The number that decides which validation is the best (checkpoint.keep_best, validation.patience): the lowest "
         "loss, or the highest of a metric that the fine-tuning head has (model.head)."},
    {INT(validation.patience, 0, 0, LARGE), .unit = "validations", .restart = RESTART_LOGGED,
     .doc =
         "Early stopping: end the run once this many validations in a row (validation.every) were no better than the "
         "best one; 0 never does."},

    {INT(checkpoint.every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Write a checkpoint every this many steps, and at the end; 0 writes none by steps."},
    {REAL(checkpoint.every_minutes, 15, 0, INFINITY), .unit = "minutes", .restart = RESTART_FREE,
     .doc = "Write a checkpoint when this time has passed since the last one (or the start), or 20 times the duration "
            "of the slowest save, if that is longer; 0 writes none by time."},
    {INT(checkpoint.keep, 3, 1, LARGE), .unit = "files", .restart = RESTART_FREE,
     .doc = "Number of newest checkpoints to keep; older ones are removed."},
    {INT(checkpoint.keep_every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Never remove checkpoints of multiples of this many steps; 0 is off."},
    {BOOL(checkpoint.keep_best, false), .restart = RESTART_FREE,
     .doc = "Write a checkpoint at each new best validation (validation.metric), and keep the best one."},
    {CHOICE(checkpoint.on_failure, DECK_FAILURE_STOP, "stop", "continue"), .restart = RESTART_FREE,
     .doc = "If a checkpoint cannot be written (disk full): end the run with exit code 1, or warn and continue. Older "
            "checkpoints are kept in both cases."},
    {BOOL(checkpoint.at_end, true), .restart = RESTART_FREE,
     .doc = "After the last step, write its checkpoint and the final model; false, for measurements, writes neither."},
    {BOOL(checkpoint.asynchronous, true), .restart = RESTART_FREE,
     .doc = "Asynchronous checkpoints (async save): a step waits only for a snapshot of weights and moments in host "
            "memory, which a thread of each rank writes in the background. The next save and the end of the run wait "
            "for it. State that does not fit in host memory is written synchronously, as are the last checkpoint and "
            "a best one. The files are the same."},
    {INT(checkpoint.stripes, 16, -1, 2000), .unit = "OSTs", .restart = RESTART_FREE,
     .doc = "On Lustre, where the program lfs is on PATH: number of servers' disks (OSTs) over which new files of "
            "output.folder are spread from their 64th MiB on. -1 uses all; 0 leaves the folder as it is."},
    {BOOL(checkpoint.export_final, false), .restart = RESTART_FREE,
     .doc = "At the end of the run, also write the model as a Hugging Face folder, final_model in output.folder."},

    {PATH(output.folder, "run"), .minimum = 1, .restart = RESTART_FREE,
     .doc = "Folder of the run's log, deck and checkpoints."},

    {INT(log.every, 10, 1, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Print and log a line every this many steps, at step 1 and at the last."},
    {BOOL(log.tensorboard, true), .restart = RESTART_FREE,
     .doc = "Write TensorBoard event files to the folder tensorboard of output.folder."},
    {PATH(log.prometheus, ""), .restart = RESTART_FREE,
     .doc = "File of metrics for Prometheus (node_exporter's textfile collector), rewritten with each line of the log, "
            "at most once per second: a path, or a name without \"/\" for a file in output.folder (\"cistron.prom\"), "
            "which ends in .prom; \"\" writes none."},

    {INT(profile.start, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "First step of a profile: the device time of each kind of launch is logged, and profilers are started "
            "(`nsys profile --capture-range=cudaProfilerApi`); 0 is off."},
    {INT(profile.stop, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE, .doc = "Last step of the profile."},
    {STRING(profile.ranks, "0"), .restart = RESTART_FREE,
     .doc = "Ranks to profile, separated by commas, or \"all\"; the log shows rank 0's profile."},
    {BOOL(profile.collectives, false), .restart = RESTART_FREE,
     .doc = "Each profiled rank also writes its collectives to collectives_RANK.csv in output.folder: group, number, "
            "bytes, and start and end within the step."},

    {CHOICE(device.kind, DECK_DEVICE_AUTO, "auto", "cpu", "cuda"), .restart = RESTART_LOGGED,
     .doc = "Device that computes; \"auto\" uses CUDA if the build and the machine have it."},
    {INT(device.threads, 0, 0, DECK_MAXIMUM_THREADS), .restart = RESTART_LOGGED,
     .doc = "CPU threads of a rank; 0 divides the CPUs of the affinity mask among the ranks of the node."},
    {REAL(device.memory, 0, 0, INFINITY), .unit = "GiB", .restart = RESTART_FREE,
     .doc = "Memory limit of a rank: a deck that needs more is refused, with a suggested change. 0 uses the rank's "
            "share of the free memory of the node, within the limits of the job or container."},
    {REAL(device.peak, 0, 0, INFINITY), .unit = "TFLOP/s", .restart = RESTART_FREE,
     .doc = "Peak arithmetic rate of a rank's device, for the utilisation (MFU) in the log and the predicted time of "
            "`cistron plan`; 0 reports none."},
    {BOOL(device.deterministic, false), .restart = RESTART_LOGGED,
     .doc = "CUDA: bitwise equal results of two runs on the same GPUs and libraries, at some cost in speed. CPUs are "
            "always deterministic."},
    {BOOL(device.graphs, true), .restart = RESTART_FREE,
     .doc = "CUDA: capture the launches of a step as CUDA graphs and replay them; false launches each kernel."},
    {BOOL(device.share, false), .restart = RESTART_FREE,
     .doc = "CUDA: let several ranks use one GPU. They sum in host memory, which is slow. Otherwise each rank of a "
            "node needs a GPU of its own."},
    {CHOICE(device.check, DECK_CHECK_OFF, "off", "results", "all"), .restart = RESTART_FREE,
     .doc = "Before the run, check matrix products, memory and transfers of all ranks, as `cistron measure --check` "
            "does, in some seconds. A bad one is named with rank and host, and the run ends with exit code 1. "
            "\"results\": devices and links that are wrong are bad; \"all\": those that are slow, below 0.75 of the "
            "median, too."},
    {PATH(device.tuning_file, ""), .restart = RESTART_FREE,
     .doc = "CUDA: tuning cache, which keeps the fastest kernels for later runs on the same kind of GPU. \"\" is one "
            "file per kind in $XDG_CACHE_HOME/cistron or ~/.cache/cistron, \"none\" times kernels at each start. Links "
            "and files of other users are refused. Tuned kernels of the resumed checkpoint take precedence over the "
            "file, and the file over those of the program. Unused with device.deterministic."},
    {PATH(device.rates_file, ""), .restart = RESTART_FREE,
     .doc = "Machine profile written by `cistron measure`, with which `cistron plan` predicts step times and "
            "parallel.shard = \"auto\" or parallel.context = 0 choose a layout; training uses it for nothing else. "
            "\"\" is the profile of an H200, its arithmetic scaled by device.peak."},

    {REAL(comm.timeout, 600, 0, INFINITY), .unit = "s", .restart = RESTART_FREE,
     .doc = "Limit for a collective: a longer one ends the run with exit code 1, and names the missing ranks. Ten "
            "times as long at the start and the end, during checkpoints, and in inference. 0: no limit."},

    {CHOICE(parallel.shard, DECK_SHARD_NONE, "none", "optimizer", "gradients", "full", "auto"),
     .restart = RESTART_LOGGED,
     .doc = "State that the ranks of a sharding group shard: none; \"optimizer\", master weights and moments (ZeRO 1); "
            "\"gradients\", also gradients (ZeRO 2); \"full\", also weights, which are gathered layer by layer in "
            "forward and backward (ZeRO 3, FSDP). \"auto\" chooses the fastest layout that fits. doc/parallel.md has "
            "the bytes per parameter, and how it chooses."},
    {INT(parallel.shard_size, 0, 0, INDEX), .unit = "ranks", .restart = RESTART_LOGGED,
     .doc = "Consecutive ranks of a sharding group; the groups are replicas (hybrid sharding, for example a group per "
            "node). 0 is all ranks, or with parallel.shard = \"auto\" chosen."},
    {CHOICE(parallel.reduce, DECK_REDUCE_AUTO, "auto", "micro_batch", "step"), .restart = RESTART_LOGGED,
     .doc = "With parallel.shard = \"gradients\" or \"full\": reduce gradients in each micro-batch, or once per step, "
            "for which each rank keeps whole gradients (4 bytes per parameter). \"auto\" is \"micro_batch\"."},
    {CHOICE(parallel.reduce_as, DECK_COMPUTE_FP32, "fp32", "bf16"), .restart = RESTART_LOGGED,
     .doc = "Type in which gradients are sent within a sharding group; they are added in fp32 in both cases."},
    {INT(parallel.context, 1, 0, INDEX), .unit = "ranks", .restart = RESTART_LOGGED,
     .doc = "Context parallelism: ranks that share each row of tokens, for rows too long for one rank; a divisor of "
            "the number of ranks. 0 is 1 or, if nothing fits then, the smallest number that fits."},
    {CHOICE(parallel.context_method, DECK_CONTEXT_AUTO, "auto", "gather", "heads", "ring"), .restart = RESTART_LOGGED,
     .doc = "How attention uses the whole row: gather keys and values; exchange tokens for heads (all-to-all); or pass "
            "keys and values around a ring (not with model.sliding_window). \"auto\" is \"heads\" if parallel.context "
            "divides model.kv_heads, "
            "otherwise \"gather\"."},
    {INT(parallel.pipeline, 1, 1, 64), .unit = "stages", .restart = RESTART_LOGGED,
     .doc = "Pipeline parallelism: number of stages, each with some of the layers; a divisor of the number of ranks. "
            "parallel.shard shards the state of a stage over its ranks; \"gradients\" and \"full\" then communicate in "
            "each micro-batch (doc/parallel.md)."},
    {INT(parallel.virtual_stages, 1, 1, 32), .restart = RESTART_LOGGED, .was = "parallel.virtual",
     .doc = "Model chunks per stage (interleaved schedule): divides the pipeline bubble, and multiplies its "
            "traffic, by this number. A step then needs a multiple of parallel.pipeline micro-batches."},
    {CHOICE(parallel.pipeline_balance, DECK_STAGES_COST, "cost", "layers", "ends"), .restart = RESTART_LOGGED,
     .was = "parallel.stages",
     .doc = "How layers are divided among the model chunks, as evenly as possible: by cost, with the head's GEMMs; by "
            "number; or by number with embedding and head as a layer each (\"ends\")."},

    {INT(parallel.tensor, 1, 1, INDEX), .unit = "ranks", .restart = RESTART_LOGGED,
     .doc = "Tensor parallelism: consecutive ranks that share each layer, with a part of the heads, of the MLP, and of "
            "the vocabulary in embedding and head. A divisor of the number of ranks, of model.heads and of model.ffn, "
            "that divides model.kv_heads or is a multiple of it. With experts each rank has whole ones: a divisor of "
            "model.num_local_experts instead of model.ffn."},
    {BOOL(parallel.sequence, true), .restart = RESTART_LOGGED,
     .doc = "Sequence parallelism: with parallel.tensor above 1, each rank has a part of the tokens between the linear "
            "layers (norms and residuals). Sends no more, and saves memory."},

    {CHOICE(precision.compute, DECK_COMPUTE_FP32, "fp32", "bf16"), .restart = RESTART_LOGGED,
     .doc = "Type of activations and of the weights that GEMMs read; master weights and sums are fp32."},
    {CHOICE(precision.recipe, DECK_RECIPE_NONE, "none", "delayed", "current", "row", "block", "mxfp8", "nvfp4"),
     .restart = RESTART_LOGGED,
     .doc = "Quantization of the linear layers of the blocks, in all three GEMMs (doc/precision.md says how to "
            "choose). fp8: \"delayed\" one scale per tensor, from earlier steps; \"current\" one, from the tensor "
            "itself; \"row\" one per row; \"block\" one per 128 values, for weights per 128 x 128. \"mxfp8\" (32 "
            "values) and \"nvfp4\" (4 bits, 16 values) are emulated: their numbers without their speed. \"none\" uses "
            "precision.compute throughout."},
    {CHOICE(precision.format, DECK_FP8_AUTO, "auto", "e4m3", "hybrid"), .restart = RESTART_LOGGED,
     .doc = "fp8 format: \"e4m3\", or \"hybrid\" with gradients in e5m2, which has more range and fewer digits. "
            "\"auto\" is e4m3 for \"block\" and \"mxfp8\", otherwise hybrid."},
    {CHOICE(precision.accumulate, DECK_ACCUMULATE_AUTO, "auto", "fast", "split"), .restart = RESTART_LOGGED,
     .doc = "Accumulation of fp8 GEMMs of forward on a GPU: \"fast\" with fewer bits than fp32, which biases long sums "
            "towards 0, or \"split\", promoted to fp32 at intervals. \"auto\" is split for \"block\", otherwise fast. "
            "Backward is always split."},
    {CHOICE(precision.weight_gradients, DECK_WEIGHT_GRADIENTS_QUANTIZED, "quantized", "compute"),
     .restart = RESTART_LOGGED,
     .doc = "GEMMs of weight gradients: with quantized operands as the others, or in precision.compute."},
    {CHOICE(precision.weight_copies, DECK_WEIGHT_COPIES_KEPT, "kept", "made"), .restart = RESTART_LOGGED,
     .doc = "Quantized weights: \"kept\" in memory from update to update (2 bytes per weight, 4 if the format is "
            "emulated), or \"made\" for each GEMM of each micro-batch, up to 1 % of a step of one micro-batch."},
    {BOOL(precision.masters, true), .restart = RESTART_LOGGED,
     .doc = "false: weights, gradients and moments are bf16 only, 8 bytes per parameter; small updates of large "
            "weights are lost. Needs precision.compute = \"bf16\"."},
    {CHOICE(precision.gradients, DECK_COMPUTE_FP32, "fp32", "bf16"), .restart = RESTART_LOGGED,
     .doc =
         "Type in which gradients are stored between micro-batch and update. \"bf16\": 2 bytes per parameter instead "
         "of 4; contributions of micro-batches and ranks are added in fp32, and rounded after each micro-batch. "
         "Unless gradients are sharded, GEMMs add to them without a buffer. Needs precision.compute = \"bf16\"."},
    {INT(precision.first_layers_bf16, 0, 0, LAYERS), .unit = "layers", .restart = RESTART_LOGGED,
     .doc = "Number of layers at the start of the model that are not quantized, whatever the lists below say."},
    {INT(precision.last_layers_bf16, 0, 0, LAYERS), .unit = "layers", .restart = RESTART_LOGGED,
     .doc = "Number of layers at the end of the model that are not quantized."},
    {STRING(precision.fp8_layers, "auto"), .restart = RESTART_LOGGED,
     .doc = "Layers in fp8, counted from 1: \"2-5,9\"; \"\" for none. \"auto\" is all that precision.fp4_layers does "
            "not name; with recipe \"nvfp4\" it is none, and layers named here are \"mxfp8\"."},
    {STRING(precision.fp4_layers, "auto"), .restart = RESTART_LOGGED,
     .doc = "Layers in NVFP4, with any recipe; no layer may be in both lists. \"auto\" is none, but with recipe "
            "\"nvfp4\" all that precision.fp8_layers does not name."},
    {STRING(precision.linears, "qkv,o,up,down"), .restart = RESTART_LOGGED,
     .doc = "Linear layers of a block to quantize, separated by commas: the projection to queries, keys and values, "
            "the attention output, and the first (with the gate) and second layer of the MLP."},
    {BOOL(precision.head, false), .restart = RESTART_LOGGED,
     .doc = "Also quantize the head's GEMMs, as the layers in fp8."},
    {REAL(precision.margin, 0, 0, 32), .restart = RESTART_LOGGED,
     .doc = "\"delayed\": scales leave room for values 2^margin times the largest amax."},
    {INT(precision.history, 1024, 1, LAYERS), .unit = "steps", .restart = RESTART_LOGGED,
     .doc = "\"delayed\": number of steps whose amax (largest absolute value) is kept."},
    {CHOICE(precision.amax, DECK_AMAX_MAXIMUM, "maximum", "latest"), .restart = RESTART_LOGGED,
     .doc = "\"delayed\": amax for the scale: the largest of the history, or the last step's."},
    {BOOL(precision.power_of_two, true), .restart = RESTART_LOGGED,
     .doc = "\"row\" and \"block\": scales are powers of two, so that scaling does not round."},
    {BOOL(precision.stochastic_rounding, true), .restart = RESTART_LOGGED,
     .doc = "NVFP4: stochastic rounding of gradients, unbiased and the same after a restart."},
    {BOOL(precision.hadamard, true), .restart = RESTART_LOGGED,
     .doc =
         "NVFP4: random Hadamard transform of 16 values for the operands of weight gradients, which spreads outliers."},

    {INT(statistics.every, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Every this many steps, and at step 1, measure the quantization error of each layer (doc/precision.md, "
            "Statistics) for log.jsonl, TensorBoard and `cistron report`. 0 is off. Results are bitwise unchanged."},
    {STRING(statistics.layers, ""), .restart = RESTART_FREE,
     .doc = "Layers to measure, counted from 1: \"2-5,9\"; layers that are not quantized are omitted. \"\" is all "
            "quantized layers, and the head with precision.head."},
    {INT(statistics.start, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "First step that may be measured."},
    {INT(statistics.stop, 0, 0, LARGE), .unit = "steps", .restart = RESTART_FREE,
     .doc = "Last step that may be measured; 0: until the end."},

    {CHOICE(memory.recompute, DECK_RECOMPUTE_NORMS, DECK_RECOMPUTE_NAMES, "fit"), .restart = RESTART_FREE,
     .doc = "Recompute policy (activation checkpointing): what backward recomputes instead of keeping it. "
            "\"only_norms\": norm outputs. The others include those before them: activation output, norm outputs, "
            "first MLP layer, q, k and v, attention, all but a block's input. \"fit\" chooses the cheapest policy per "
            "layer that fits in memory; on a GPU it also offloads layers (memory.offload_layers) if copies are hidden "
            "and GEMMs are saved. Results are bitwise unchanged."},
    {STRING(memory.recompute_layers, ""), .restart = RESTART_FREE,
     .doc = "Layers with a policy other than memory.recompute, counted from 1: \"full:1-8,qkv:9-12,20\". Not with "
            "memory.recompute = \"fit\"."},
    {STRING(memory.offload_layers, ""), .restart = RESTART_FREE,
     .doc = "Layers, counted from 1 (\"1-8,20\"), whose kept tensors except outputs are offloaded to host memory "
            "between forward and backward; copies overlap with computation. For devices with memory of their own. "
            "Results are bitwise unchanged."},
    {STRING(memory.fitted_layers, ""), .restart = RESTART_FREE,
     .doc = "Written by a run with memory.recompute = \"fit\": its choice for all layers, as in "
            "memory.recompute_layers. A resumed run with the same number of ranks uses it again if it still fits."},
    {STRING(memory.fitted_offload, ""), .restart = RESTART_FREE,
     .doc = "Written by a run with memory.recompute = \"fit\": the layers that it offloads, if memory.offload_layers "
            "names none."},
    {INT(memory.head_tokens, 1024, 0, INDEX), .unit = "tokens", .restart = RESTART_LOGGED,
     .doc = "Tokens whose logits are in memory at a time (a slice of the head). Each slice reads and writes the "
            "gradient of the head's matrix. 0: chosen by the program, as large as pays for its memory, and larger if "
            "memory is left."},
    {INT(memory.mlp_tokens, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_LOGGED,
     .doc =
         "For very long rows: a block computes its MLP for this number of tokens at a time, and again in backward, so "
         "that only these have activations between its GEMMs. 0: all at once. Needs precision.recipe = \"none\" and "
         "parallel.tensor = 1."},
    {INT(memory.fitted_head_tokens, 0, 0, INDEX), .unit = "tokens", .restart = RESTART_FREE,
     .doc = "Written by a run with memory.head_tokens = 0: its choice. A resumed run with the same number of ranks "
            "uses it again if it still fits."},
};

const int deck_table_rows = sizeof deck_table / sizeof deck_table[0];

_Static_assert(sizeof deck_table / sizeof deck_table[0] <= DECK_MAXIMUM_KEYS, "struct deck has a mark for each key");

const char *const deck_restarts[RESTARTS] = {
    [RESTART_FREE] = "results do not depend on it",
    [RESTART_LOGGED] = "applies from the next step on",
    [RESTART_TENSORS] = "the checkpoint's tensors are made for it",
    [RESTART_MODEL] = "the same weights would be another model",
    [RESTART_START] = "only the initial weights depend on it",
    [RESTART_LABELS] = "losses before and after would be of other labels",
    [RESTART_DATA] = "the position in the data would be another one",
};
