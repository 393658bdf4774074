/* TensorBoard event files: what TensorBoard draws as scalars. A file is a row of records (TFRecord): length (u64),
 * masked CRC-32C of the length (u32), data, masked CRC-32C of the data (u32), little endian; the data is a protocol
 * buffer of TensorFlow's event.proto. The first record holds the version "brain.Event:2". Each program writes a file of
 * its own, and TensorBoard reads them in the order of their names. */
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

/* Cuts each event file of `folder` at its first record of a step after `step`, or at a damaged one: what a program that
 * was killed wrote later than the checkpoint from which the next one goes on. A file that then holds no step is
 * removed. A folder that is not there is fine. Local. ERROR_ENVIRONMENT. */
int tensorboard_cut(const char *folder, int64_t step);
/* Makes the folder, if need be, and in it a new event file behind those that are there, of a program that goes on from
 * `step`; a TensorBoard that shows the run drops what it has read of later steps. Local. ERROR_ENVIRONMENT. */
int tensorboard_open(struct tensorboard *board, const char *folder, int64_t step);
void tensorboard_close(struct tensorboard *board);

/* Writes the scalars of a step as one record. When that fails, it warns and writes no more. Does nothing on a board
 * that is not open. */
void tensorboard_write(struct tensorboard *board, int64_t step, const struct tensorboard_scalar *scalars, int count);

/* The same for one text, which TensorBoard shows as Markdown on its page "Text". */
void tensorboard_write_text(struct tensorboard *board, int64_t step, const char *tag, const char *text);

/* CRC-32C (Castagnoli's polynomial, reflected), and as a record holds it. */
uint32_t tensorboard_crc(const void *data, int64_t bytes);
uint32_t tensorboard_masked_crc(const void *data, int64_t bytes);

#endif
