/* Folders of LoRA adapters as peft writes them: adapter_config.json, and adapter_model.safetensors, where
 * base_model.model.NAME.lora_A.weight is the matrix A of module NAME. Modules that are trained whole are listed as
 * modules_to_save, and their tensors are base_model.model.NAME. Source: peft 0.21.0, LoraConfig and
 * get_peft_model_state_dict. */
#ifndef BRIDGE_PEFT_H
#define BRIDGE_PEFT_H

#include "bridge/safetensors.h"
#include "model/model.h"

#define PEFT_TENSORS "adapter_model.safetensors"
#define PEFT_PREFIX "base_model.model."

/* Returns whether the folder has an adapter_config.json. */
bool peft_is_adapter(const char *folder);

/* Writes adapter_config.json for a model and its adapters; its modules_to_save are those of the head, if it is trained.
 * Local. Errors of json_file_write. */
int peft_write_config(const struct model *model, const char *folder);

struct peft_config {
    struct lora_settings lora; /* without targets */
    enum deck_head head;       /* of task_type */
    bool saves_modules;
};

/* Reads adapter_config.json. Local. ERROR_USER: the file is missing or damaged, or describes
 * adapters that this program does not compute; the message names the key. */
int peft_read_config(struct peft_config *config, const char *folder);

/* Writes the names of the modules that have an adapter in the first layer, with commas between them; freed with free().
 * NULL: there are none. */
char *peft_targets(const struct safetensors *st, const struct family *family);

#endif
