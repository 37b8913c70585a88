# shellcheck shell=sh disable=SC2034,SC2154 # the parts share their variables
# The supervisor of one lane.
#
# Who hears signals does nothing but set a variable and sleep: once a second the
# supervisor looks at what the stages have written down, and it never waits for
# anything longer than that. It has no command substitution, which bash 5.2
# cannot read while a signal comes.
#
# In the lane's run directory:
#   lock    is held by the supervisor, descriptor 5
#   run     is held by every process of a run and by nothing else, descriptor 8
#   stages  has a line for each stage that began: NAME PID
#   ends    has a line for each one that ended: NAME STATUS
#   state   is what `sf2loki status` shows
#   stop    is the supervisor that `sf2loki stop` has told to end
# Descriptor 7 is a stage's standard input. 3 belongs to the stages.

#
# Stages. Each runs in a shell of its own, whose process it becomes.
#

# scope PREFIX...: leave in the environment what concerns one program, so that
# none of them holds another's credentials.
scope() {
	for other in SF_PULL_ LOKI_PUSH_ CKPT_ DL_REPLAY_; do
		case " $* " in *" $other "*) continue ;; esac
		for name in $(env | sed -n "s/^\(${other}[A-Z0-9_]*\)=.*/\1/p"); do
			unset "$name"
		done
	done
	settings "$conf" "$@" HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_ GOMEMLIMIT GOMAXPROCS TZ || exit
	for program in "$@"; do
		if [ -n "$job" ]; then job_metrics "$program"; fi
		default "${program}INSTANCE" "$(uname -n)-$lane${job:+-$job}"
	done
}

# job_metrics PREFIX: a job has other metrics than the lane: a file for each
# program, with a name in it that no other has, as one collector reads them all.
job_metrics() {
	unset "${1}METRICS_LISTEN" "${1}METRICS_FILE" "${1}REPORT"
	[ -n "${SF2LOKI_METRICS_DIR:-}" ] || return 0
	case $job in audit | backfill | replay) ;; *) return 0 ;; esac
	who=$lane-$job-$(program_of "$1")
	export "${1}METRICS_FILE=$SF2LOKI_METRICS_DIR/sf2loki-$who.prom" "${1}INSTANCE=$(uname -n)-$who"
}

program_of() { # PREFIX: whose settings begin so
	printf %s "${1%_}" | tr 'A-Z_' 'a-z-'
}

default_spool() { default LOKI_PUSH_SPOOL "/var/spool/sf2loki/$lane"; }

# default_ledger: beside the positions, if these are in a file.
default_ledger() {
	case $state in *://*) ;; *) default CKPT_LEDGER "${state%.json}.ledger" ;; esac
}

metrics() { # PREFIX N: the Nth port from the lane's first one
	[ -n "$job" ] || [ -z "${SF2LOKI_METRICS:-}" ] ||
		default "${1}METRICS_LISTEN" "${SF2LOKI_METRICS%:*}:$((${SF2LOKI_METRICS##*:} + $2))"
}

# pull ARG...: a store that is no file is exported first. What fails there is
# never taken for a first start.
pull() {
	resume=$state
	case $state in
	file:///*%*) resume='' ;;
	file:///*) resume=${state#file://} ;;
	*://*) resume='' ;;
	esac
	if [ -z "$resume" ]; then
		resume=$dir/resume.json
		(scope CKPT_ && exec ckpt export "$state") >"$resume" || exit
	fi
	scope SF_PULL_
	metrics SF_PULL_ 0
	if [ -z "$job" ]; then default SF_PULL_FOLLOW true; else unset SF_PULL_FOLLOW; fi
	if [ "$job" = fill ]; then
		unset SF_PULL_EVENT_TYPE SF_PULL_EXCLUDE SF_PULL_RESUME # what is missing says which
	else
		set -- --resume "$resume" "$@"
	fi
	exec sf-pull "$SF2LOKI_SOURCE" "$@"
}

push() {
	scope LOKI_PUSH_
	metrics LOKI_PUSH_ 1
	default_spool
	default LOKI_PUSH_SPOOL_BYTES 1GiB
	default LOKI_PUSH_SPOOL_RETENTION 30d
	default LOKI_PUSH_ON_DEAD_LETTER_ERROR stop
	exec loki-push
}

commit() {
	scope CKPT_
	metrics CKPT_ 2
	default_ledger
	exec ckpt commit "$state"
}

# stage NAME CMD...: run CMD, and write down its start and its end. A signal to
# the whole process group must not end the one who writes first; it is ignored
# here, for a wait that a trap cuts short may lose the status in bash.
stage() {
	trap '' TERM INT HUP
	stage_name=$1
	shift
	exec 7<&0 # a background command would otherwise read /dev/null
	{
		trap - TERM HUP
		"$@"
	} <&7 7<&- &
	stage_pid=$!
	printf '%s %d\n' "$stage_name" "$stage_pid" >>"$dir/stages"
	log info "stage=$stage_name pid=$stage_pid msg=started"
	wait "$stage_pid"
	stage_status=$?
	printf '%s %d\n' "$stage_name" "$stage_status" >>"$dir/ends"
	if [ "$stage_status" -eq 0 ]; then stage_level=info; else stage_level=warn; fi
	log "$stage_level" "stage=$stage_name status=$stage_status msg=ended"
}

#
# Time and signals. SF2LOKI_SECOND is the length of a second, which tests make
# short.
#

listen() { # have signals heard, which is all that is done about them at once
	heard=''
	trap 'heard=1' TERM INT HUP
}

# apart DIR FUNCTION ARG...: a process of its own does it, as who hears signals
# does nothing else, and passes them on to all that it has started: descriptor 8
# tells them. Nothing is left of DIR.
apart() {
	dir=$1
	shift
	listen
	("$@") 8>"$dir/run" &
	wait "$!"
	result=$?
	if [ -n "$heard" ]; then
		for process in /proc/[0-9]*; do
			if ours "${process#/proc/}"; then kill -TERM "${process#/proc/}" 2>/dev/null; fi
		done
		result=75
	fi
	rm -rf "$dir"
	exit "$result"
}

snooze() { # SECONDS: or until a signal is heard
	span=$1
	if [ "$second" != 1 ]; then
		awk "BEGIN { print $1 * $second }" >"$dir/span"
		read -r span <"$dir/span" || span=$1
	fi
	sleep "$span" >/dev/null 2>&1 5>&- &
	wait "$!"
	[ -z "$heard" ] || kill "$!" 2>/dev/null
}

# deserted: has the supervisor of several lanes ended without a word?
deserted() { [ -n "$parent" ] && ! kill -0 "$parent" 2>/dev/null; }

# pause SECONDS: wait, or be told to stop.
pause() {
	show "waiting $1 s"
	left=$1
	while [ "$left" -gt 0 ]; do
		if [ -n "$parent" ] && [ "$left" -gt 10 ]; then piece=10; else piece=$left; fi
		snooze "$piece"
		left=$((left - piece))
		if [ -n "$heard" ] || deserted; then asked=1 left=0; fi
	done
}

#
# One run of the pipeline
#

show() { # STATE: what `sf2loki status` says of us
	{
		date -u "+state $1%nsince %Y-%m-%dT%H:%M:%SZ"
		printf 'pid %d\nruns %d\n' "$me" "$run"
		cat "$dir/last"
	} >"$dir/state.new" 2>/dev/null && mv "$dir/state.new" "$dir/state"
}

read_state() { # what somebody has shown: $phase, and the process $owner
	phase='' owner=''
	while read -r name value; do
		case $name in
		state) phase=$value ;;
		pid) owner=$value ;;
		esac
	done <"$dir/state"
}

# ours PID: is this a process of the run? Its number may be another's by now.
ours() {
	# shellcheck disable=SC3013 # dash, bash and busybox have it
	[ "/proc/$1/fd/8" -ef "$dir/run" ]
}

# tell SIGNAL [NAME]: send it to the stages, or to one of them.
tell() {
	told=''
	while read -r name pid; do
		[ "$name" = "${2:-$name}" ] || continue
		ours "$pid" && kill "-$1" "$pid" 2>/dev/null && told=1
	done <"$dir/stages"
}

# gone: has every process of the run ended? Nobody has to be asked as long as
# all stages are there.
gone() {
	count=0
	while read -r name pid; do
		ours "$pid" && count=$((count + 1))
	done <"$dir/stages"
	[ "$count" -lt 3 ] && flock -n 6 6<"$dir/run"
}

# stop_head: stop the head of the pipe. End of file carries that downstream;
# only who does not follow in time is told.
stop_head() {
	step=head left=$head_grace
	tell TERM sf-pull
	show stopping
}

# take_ends: what stages have written down since we looked last.
take_ends() {
	count=0
	while read -r name code; do
		count=$((count + 1))
		[ "$count" -gt "$ended" ] || continue
		# What we kill is unfinished work, whatever signal it took.
		[ "$code" -eq 0 ] || [ -z "$forced" ] || code=75
		[ "$status" -ne 0 ] || [ "$code" -eq 0 ] || status=$code why=$name
		# A source that comes to its end by itself lets the rest drain.
		[ "$name $code" = 'sf-pull 0' ] || [ -n "$step" ] || stop_head
	done <"$dir/ends"
	ended=$count
}

# take_signal: somebody told us to stop. When that was a signal to the whole
# group the head has had it too, and a second one would end it at once: it gets
# a moment first. A second signal takes the next step at once.
take_signal() {
	heard=''
	if [ -n "$asked" ]; then left=0; fi
	asked=1
	[ -n "$step" ] || step=soon left=1
}

# take_step: what is due of the steps by which a run ends.
take_step() {
	[ "$step" != head ] || [ -n "$told" ] || tell TERM sf-pull
	if [ "$left" -gt 0 ]; then
		left=$((left - 1))
		return
	fi
	case $step in
	soon) stop_head ;;
	head)
		log warn 'msg="sending TERM to every stage"'
		tell TERM
		step=all left=$grace
		;;
	*)
		log warn 'msg="sending KILL to every stage"'
		forced=1
		tell KILL
		left=$grace
		;;
	esac
}

# attend: see the run through until every process of it has ended.
attend() {
	age=0 ended=0
	until gone; do
		snooze 1
		age=$((age + 1))
		take_ends
		[ -n "$asked" ] || ! deserted || heard=1
		[ -z "$heard" ] || take_signal
		if [ -n "$step" ]; then
			take_step
		elif [ "$age" -eq "$good" ]; then
			retry=$retry_min loud=$loud_min
			log info 'msg="running well"'
		fi
	done
	take_ends
}

begin_run() {
	status=0 why='' step='' forced='' told=''
	: >"$dir/stages"
	: >"$dir/ends"
}

# run_once ARG...: one run of the pipeline, with arguments for sf-pull. Leaves
# its status in $status, and in $why the stage that it comes from.
# shellcheck disable=SC2120 # jobs have arguments
run_once() {
	run=$((run + 1))
	begin_run
	exec 8>"$dir/run"
	if flock -n 8; then
		show running
		{ stage sf-pull pull "$@" </dev/null | stage loki-push push | stage ckpt commit; } 5>&- &
		exec 8>&-
		attend
		# Who writes down the end of a stage may have been killed.
		[ "$ended" -eq 3 ] || [ "$status" -ne 0 ] || status=75 why='a lost stage'
	else
		exec 8>&-
		status=75 why=lock
	fi
	date -u "+last %Y-%m-%dT%H:%M:%SZ status $status${why:+ of $why}" >"$dir/last"
}

# leftovers: a supervisor that was killed leaves its stages behind. They are
# stopped as always, and nothing starts before the last of them has ended.
leftovers() {
	flock -n 6 6<"$dir/run" && return
	log warn 'msg="stages of an earlier run are still there, stopping them"'
	status=0 why='' step=soon left=1 forced='' told=''
	attend
}

#
# The supervisor of one lane
#

# take_lock: one supervisor for each lane on a host. Under a lease the lock has
# come with us. One that is on its way out is waited for.
take_lock() {
	if ! mkdir -p "$dir" || ! touch "$dir/lock" "$dir/run" "$dir/stages" "$dir/ends" "$dir/last" "$dir/state"; then
		die 73 "$dir cannot be made or written"
	fi
	# shellcheck disable=SC3013 # dash, bash and busybox have it
	[ /proc/self/fd/5 -ef "$dir/lock" ] && return
	exec 5>>"$dir/lock"
	attempts=3
	until flock -n 5; do
		read_state
		case $phase in stopping | ended) attempts=3 ;; esac
		attempts=$((attempts - 1))
		[ "$attempts" -gt 0 ] || break
		snooze 1
	done
	[ "$attempts" -gt 0 ] && return
	[ -z "$parent" ] || snooze 10
	die 75 "$lane${job:+, $job,} runs already, as process $owner"
}

# own_pid: the process id of this shell, also of one that is a part of another.
own_pid() { read -r me name </proc/self/stat; }

# begin_lane LANE: everything before the first run.
begin_lane() {
	configure "$1" || exit
	dir=$dir${job:+/$job}
	command -v flock >/dev/null || die 69 'flock(1) is needed'
	asked='' run=0 heard='' parent=${SF2LOKI_PARENT:-}
	[ -z "${CKPT_EPOCH:-}" ] || parent='' # ckpt lease looks after it
	own_pid
	take_lock
	[ -n "${CKPT_EPOCH:-}" ] || rm -f "$dir/stop" # it told one before us
	listen
}

# run_lane LANE: run its pipeline until told to stop, or for good reason.
run_lane() {
	begin_lane "$1"
	if [ -n "${SF2LOKI_LEASE:-}" ] && [ -z "${CKPT_EPOCH:-}" ]; then under_lease; fi
	me=${SF2LOKI_HOLDER:-$me}
	show starting
	log info "pid=$me msg=started"
	retry=$retry_min loud=$loud_min
	leftovers
	status=0
	while [ -z "$asked" ]; do
		# shellcheck disable=SC2119 # it needs no arguments
		run_once
		[ -z "$asked" ] || break
		again || break
		status=0 # told to stop while nothing runs
	done
	if [ -n "${CKPT_EPOCH:-}" ]; then show standby; else show ended; fi
	log info "status=$status msg=ended"
	exit "$status"
}

# under_lease: become `ckpt lease`, which runs this script again while it leads.
# The lock goes along. Metrics of the lease have the lane's fourth port.
under_lease() {
	export SF2LOKI_HOLDER="$me"
	settings "$conf" CKPT_ HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_ || exit
	unset CKPT_METRICS_LISTEN CKPT_METRICS_FILE CKPT_REPORT
	metrics CKPT_ 3
	show standby
	trap - TERM INT HUP
	exec ckpt lease "$SF2LOKI_LEASE" --fence "$state" ${parent:+--parent "$parent"} -- "$self" run "$conf"
}

# again: wait before the next run, by how the last one ended; false when there
# is to be none.
again() {
	case $status in
	64)
		log error "stage=${why:-?} status=64 msg=\"wrong usage: not started again\""
		return 1
		;;
	65 | 73 | 77 | 78)
		jitter "$loud"
		log error "stage=${why:-?} status=$status retry_in=${delay}s msg=\"needs somebody's attention\""
		loud=$((loud * 2))
		[ "$loud" -lt "$loud_max" ] || loud=$loud_max
		;;
	*)
		jitter "$retry"
		log warn "stage=${why:-?} status=$status retry_in=${delay}s msg=\"starting again\""
		retry=$((retry * 2))
		[ "$retry" -lt "$retry_max" ] || retry=$retry_max
		;;
	esac
	pause "$delay"
}

jitter() { # N: set delay to N, and up to a quarter more
	od -An -N2 -tu2 /dev/urandom >"$dir/random"
	read -r random <"$dir/random" || random=0
	delay=$(($1 + random % ($1 / 4 + 1)))
}

#
# Several lanes
#

# run_lanes LANE...: each in a process of its own; one never stops another. A
# lane whose supervisor was killed gets a new one.
run_lanes() {
	[ $# -gt 1 ] || run_lane "$1"
	second=1 asked='' result=0 pids='' live=$#
	own_pid
	export SF2LOKI_PARENT="$me"
	listen
	for l in "$@"; do
		(run_lane "$l") &
		pids="$pids$! "
	done
	while [ "$live" -gt 0 ]; do
		snooze 1
		if [ -n "$heard" ]; then
			heard='' asked=1
			# shellcheck disable=SC2086 # a list of numbers; those of lanes that ended are 0
			for pid in $pids; do [ "$pid" -eq 0 ] || kill -TERM "$pid" 2>/dev/null; done
		fi
		rest=$pids pids=''
		for l in "$@"; do
			pid=${rest%% *} rest=${rest#* }
			[ "$pid" -eq 0 ] || kill -0 "$pid" 2>/dev/null || next_of_lane "$l"
			pids="$pids$pid "
		done
	done
	exit "$result"
}

# next_of_lane LANE: its supervisor, $pid, has ended: take its status, or start
# another while there are others beside it. What it could not do in a moment, it
# may be able to do in the next: only wrong usage and configuration are for good.
# One that was killed leaves its stages behind, also when there is to be no other.
next_of_lane() {
	wait "$pid"
	code=$?
	[ "$code" -ge 0 ] || code=137 # bash, when a signal comes in the same moment
	if [ -n "$asked" ] && [ "$code" -gt 128 ]; then
		(last_of_lane "$1") &
		pid=$!
		return
	fi
	case $asked/$live/$code in
	?*/*/* | /1/* | */0 | */64 | */78) ;;
	*)
		if ! (finished "$1"); then
			(later_lane "$1") &
			pid=$!
			return
		fi
		;;
	esac
	pid=0
	live=$((live - 1))
	[ "$result" -ne 0 ] || result=$code
}

later_lane() { # LANE: at once, if its supervisor was killed
	listen
	[ "$code" -gt 128 ] || [ "$code" -eq 75 ] || snooze 10
	[ -z "$heard" ] || exit "$code"
	run_lane "$1"
}

last_of_lane() { # LANE: stop the stages that are left of it
	begin_lane "$1"
	leftovers
	show ended
	exit 75
}

# finished LANE: was the supervisor $pid told to stop? Then `sf2loki stop` has
# written that down, or itself that it ended, whatever status its stages have
# left it with. One that was killed, or found another in its place, has not.
finished() {
	configure "$1" 2>/dev/null || return
	stopped=''
	[ ! -e "$dir/stop" ] || read -r stopped <"$dir/stop"
	[ "$stopped" != "$pid" ] || return 0
	read_state
	[ "$owner" = "$pid" ] || return
	[ "$phase" = ended ] || [ "$phase $code" = 'standby 75' ] # under a lease
}
