#!/bin/bash
# Trains a deck in a Flux job, through as many time limits as it takes:
#
#   flux batch jobscripts/train.flux DECK [KEY=VALUE]...
#   jobscripts/train.flux --plan DECK [KEY=VALUE]...      what such a job takes
#
# Submit it from the folder that the deck's paths start from. Five minutes (CISTRON_WARNING) before its time is up the run
# saves a checkpoint, and the job submits itself again. jobscripts/train.slurm and doc/clusters.md say more.
#
# Change what stands here to your cluster. flux batch may get other --nodes, but the slots of a node are those of these
# lines. A slot is a rank, one for each GPU: --gpus-per-slot=1. A rank runs a thread on each of its cores.
#flux: --job-name=cistron
#flux: --nodes=1 --nslots=2 --cores-per-slot=4
#flux: --time-limit=4h
#flux: --output=cistron-{{id}}.out

# What makes cistron known, or CISTRON=PATH from outside:
# module load cistron
eval "$(${CISTRON:-cistron} jobscripts common.sh || echo exit 1)"
train "$@"
