/* The names of files in a run folder (output.folder), described in doc/formats_logs.md. */
#ifndef FILE_RUN_FOLDER_H
#define FILE_RUN_FOLDER_H

#define RUN_LOG "log.jsonl"
#define RUN_DECK "deck.cfg"             /* the effective deck */
#define RUN_TENSORBOARD "tensorboard"   /* folder of event files */
#define RUN_LOCK "lock"                 /* locked by the one live run; a sweep's folder has it too */
#define RUN_CHECKPOINT "step_%08lld.h5" /* format, with the step */
#define RUN_FINAL_MODEL "final_model.h5"
#define RUN_EXPORT "final_model"               /* the final model as a Hugging Face folder */
#define RUN_COLLECTIVES "collectives_%04d.csv" /* format, with the rank */
#define RUN_REPORT "report.html"

/* Requests to a live run, which removes them: empty files that a user makes. */
#define RUN_STOP "stop"
#define RUN_SAVE "checkpoint"

#endif
