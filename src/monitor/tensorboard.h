/* Writes TensorBoard event files of scalars and texts. A file is a sequence of records (TFRecord): length (u64), masked
 * CRC-32C of the length (u32), data, masked CRC-32C of the data (u32), little endian. The data is a protocol buffer of
 * TensorFlow's event.proto. The first record has the version "brain.Event:2". Each program writes its own file, and
 * TensorBoard reads the files in the order of their names. */
#ifndef MONITOR_TENSORBOARD_H
#define MONITOR_TENSORBOARD_H

#include <stdint.h>

struct tensorboard {
    char *path; /* NULL: not open */
    int descriptor;
};

struct tensorboard_scalar {
    const char *tag; /* "train/loss" */
    double value;    /* stored as a float */
};

/* Truncates each event file of `folder` at its first record of a step after `step`, which a killed program wrote after
 * its last checkpoint, or at a damaged record. Removes a file that then has no step. A missing folder is not an error.
 * Local. ERROR_ENVIRONMENT. */
int tensorboard_truncate(const char *folder, int64_t step);
/* Makes the folder if it does not exist, and in it a new event file, which sorts after the existing ones, for a program
 * that resumes at `step`. A TensorBoard that shows the run drops the points of later steps. Local. ERROR_ENVIRONMENT.
 */
int tensorboard_open(struct tensorboard *board, const char *folder, int64_t step);
void tensorboard_close(struct tensorboard *board);

/* Writes the scalars of a step as one record. After a failed write it warns and writes no more. Does nothing if the
 * board is not open. */
void tensorboard_write(struct tensorboard *board, int64_t step, const struct tensorboard_scalar *scalars, int count);

/* Writes one text, which TensorBoard shows as Markdown on its page "Text". Failures as in tensorboard_write. */
void tensorboard_write_text(struct tensorboard *board, int64_t step, const char *tag, const char *text);

/* Return the CRC-32C (Castagnoli's polynomial, reflected) of bytes, and its masked form in records. */
uint32_t tensorboard_crc(const void *data, int64_t bytes);
uint32_t tensorboard_masked_crc(const void *data, int64_t bytes);

#endif
