#!/usr/bin/env bash
#SBATCH --job-name=contilab
#SBATCH --array=0-3
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@90
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=contilab-%A_%a.log
#
# A study on a Slurm cluster: each task of the array is one runner, in the image, through Apptainer. All settings above can be
# overruled on the command line, and what follows the script's name goes to `contilab run`:
#
#   apptainer build contilab.sif docker-daemon://contilab:latest
#   CONTILAB_MANIFEST=manifests/digits.toml sbatch --array=0-7 --time=12:00:00 docker/slurm.sh --study digits
#
# CONTILAB_IMAGE     the image; contilab.sif in the folder of submission unless set
# CONTILAB_STORE     the store, a folder that all nodes see; store in the folder of submission unless set
# CONTILAB_MANIFEST  a manifest to plan first; without it the store must have a plan. Each task plans: the second finds all there
# CONTILAB_DATA      a folder with data sets, which runners read
# CONTILAB_REQUEUE   0: a runner that the time limit stopped stays away. Otherwise it is queued again and goes on where it was
# APPTAINER          the program; apptainer unless set (singularity takes the same options)
set -uo pipefail

here=${SLURM_SUBMIT_DIR:-$PWD}
image=${CONTILAB_IMAGE:-$here/contilab.sif}
store=${CONTILAB_STORE:-$here/store}
child=
was_asked=

fail() {  # the problem, the way out
  printf 'error: docker/slurm.sh: %s\n\nhint: %s\n' "$1" "$2" >&2
  exit 4
}

# shellcheck disable=SC2329  # a trap calls it
ask_to_stop() {  # Apptainer hands the signal on to contilab, once; a second one would end it at once
  was_asked=yes
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}

# shellcheck disable=SC2329  # a trap calls it
make_sure() {  # `scancel` sends SIGTERM to all processes of a job; were it this shell alone, contilab would still run after 10 s
  { sleep 10 && kill -TERM "$child"; } >/dev/null 2>&1 &
}

contained() {  # a command of contilab and its arguments; the exit code is contilab's
  local code
  "${APPTAINER:-apptainer}" run "${options[@]}" "$image" "$@" &
  child=$!
  while true; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break  # else a signal ended the waiting, and not the child
  done
  child=
  [ "$code" != 138 ] || code=143  # USR1 ended the waiting in the moment in which the child ended
  return "$code"
}

command -v "${APPTAINER:-apptainer}" >/dev/null || fail "no ${APPTAINER:-apptainer} on this node" "load its module, or name it: APPTAINER=/path/to/apptainer"
[ -e "$image" ] || fail "there is no image $image" "build it, or name it: CONTILAB_IMAGE=/path/to/contilab.sif"
mkdir -p "$store" || fail "the store $store cannot be made" "name a folder that all nodes see: CONTILAB_STORE=/path"

# the threads, since not every cluster binds a task to its cores; no home, since the image needs nothing from there
options=(--cleanenv --no-home --pwd /app --bind "$store:/store" --env "OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}")
[ -z "${CONTILAB_DATA:-}" ] || options+=(--bind "$CONTILAB_DATA:/data:ro" --env CONTILAB_DATA=/data)
[ -z "${CUDA_VISIBLE_DEVICES:-}" ] || options+=(--nv --env "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES")

trap ask_to_stop USR1
trap make_sure TERM

if [ -n "${CONTILAB_MANIFEST:-}" ]; then
  manifest=$(realpath -- "$CONTILAB_MANIFEST") || fail "there is no manifest $CONTILAB_MANIFEST" "name one: CONTILAB_MANIFEST=/path/to/study.toml"
  options+=(--bind "$manifest:/app/study.toml:ro")
  contained plan study.toml || exit
fi
contained run "$@"
code=$?
if [ -n "$was_asked" ] && [ "$code" = 143 ] && [ "${CONTILAB_REQUEUE:-1}" != 0 ] && [ -n "${SLURM_JOB_ID:-}" ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
