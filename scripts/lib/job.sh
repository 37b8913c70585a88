# shellcheck shell=sh disable=SC2034,SC2154 # the parts share their variables
# Jobs: what is done once, beside a lane that runs. Each holds a lock of its own
# in the lane's run directory; a lane is one source of one org.

# backfill LANE --since TIME --until TIME [FLAG...]: the lane's pipeline for a
# window, which has positions of its own.
backfill() {
	job=backfill
	one_lane "$@"
	bounds=''
	for argument in "$@"; do
		case $argument in
		-since | --since | -since=* | --since=* | -until | --until | -until=* | --until=*) bounds="$bounds+" ;;
		esac
	done
	[ "$bounds" = ++ ] || die 64 'backfill: --since TIME and --until TIME have to be given'
	begin_lane "$1"
	shift
	once "$@"
}

# once ARG...: the pipeline of a job, with arguments for sf-pull, to its end.
once() {
	leftovers
	run_once "$@"
	# What a signal has cut short is not done.
	[ -z "$asked" ] || [ "$status" -ne 0 ] || status=75
	show ended
	log info "status=$status msg=ended"
	exit "$status"
}

# replay LANE [ARG...]: dl-replay run over the lane's spool. The lock goes along.
replay() {
	job=replay
	one_lane "$@"
	begin_lane "$1"
	shift
	trap - TERM INT HUP
	scope LOKI_PUSH_ DL_REPLAY_
	default_spool
	exec dl-replay run --spool "$LOKI_PUSH_SPOOL" "$@" -- loki-push
}

one_lane() {
	case ${1:--} in -*) die 64 "$job: which lane?" ;; esac
}
