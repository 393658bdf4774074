/* Output files of `cistron score`. Paths that end in .h5 or .hdf5 are HDF5 files, all others text with the delimiter of
 * the table of variants (scans, VCF and positions: commas).
 *
 * Scores as text: the rows as they were read, with a column for each method. As HDF5:
 *
 *   /names      fixed-length strings, padded with NUL, [variants]: the records' names
 *   /mutations  fixed-length strings [variants]: A42G:L50P, WT; AC42G where letters are inserted or deleted
 *   /scores     f64 [variants, methods]
 *   /methods    fixed-length strings [methods]
 *   /measured   f64 [variants], only with measured values; NaN: none
 *
 * Positions as text: a row for each token at each letter of each record: name, position (from 1), wild_type, token,
 * log_probability, logit. As HDF5:
 *
 *   /names              strings [records]
 *   /lengths            i64 [records]: letters
 *   /offsets            i64 [records + 1]: record i has rows offsets[i] .. offsets[i + 1] - 1
 *   /wild_type          strings [letters]
 *   /tokens             strings [vocabulary]: texts of the tokens
 *   /logits             f32 [letters, vocabulary]
 *   /log_probabilities  f32 [letters, vocabulary], nats
 *
 * Attributes of the root of both: cistron_scores (version of this layout), version (of the program), checkpoint (path),
 * step (of the training), family, tokenizer, context, method (positions: whose logits they are). */
#ifndef INFER_SCORE_FILE_H
#define INFER_SCORE_FILE_H

#include "file/atomic_file.h"
#include "infer/inference.h"
#include "infer/variant_score.h"

/* Returns whether a path is that of an HDF5 file. */
bool score_file_is_hdf5(const char *path);

/* Write to an open output in the form that `path`, its final path, requests. Failures of text stay in the error state
 * of output->file. Local. ERROR_ENVIRONMENT. */
int score_file_write(struct atomic_file *output, const char *path, const struct inference *inference,
                     const struct variant_scoring *scoring, const struct variant_list *variants, double *const *scores);
int score_file_write_positions(struct atomic_file *output, const char *path, const struct inference *inference,
                               const struct variant_scoring *scoring, const struct site_logits *sites);

#endif
