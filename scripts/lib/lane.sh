# shellcheck shell=sh disable=SC2034,SC2154 # the parts share their variables
# The supervisor of one lane. Descriptors: 5 the lane's lock, 6 and 8 the FIFO
# that tells when all processes of a run have ended, 7 a stage's standard
# input, 9 the FIFO of events. 3 belongs to the stages.

#
# Stages. Each runs in a shell of its own, whose process it becomes.
#

# scope PREFIX: leave in the environment what concerns one program, so that
# none of them holds another's credentials.
scope() {
	for name in $(env | sed -n 's/^\(SF_PULL_[A-Z0-9_]*\)=.*/\1/p; s/^\(LOKI_PUSH_[A-Z0-9_]*\)=.*/\1/p; s/^\(CKPT_[A-Z0-9_]*\)=.*/\1/p'); do
		case $name in "$1"*) ;; *) unset "$name" ;; esac
	done
	settings "$conf" "$1" HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_ GOMEMLIMIT GOMAXPROCS TZ || exit
	default "${1}INSTANCE" "$(uname -n)-$lane"
}

metrics() { # PREFIX N: the Nth port from the lane's first one
	[ -z "${SF2LOKI_METRICS:-}" ] ||
		default "${1}METRICS_LISTEN" "${SF2LOKI_METRICS%:*}:$((${SF2LOKI_METRICS##*:} + $2))"
}

pull() {
	scope SF_PULL_
	metrics SF_PULL_ 0
	default SF_PULL_FOLLOW true
	exec sf-pull "$SF2LOKI_SOURCE" --resume "$resume"
}

push() {
	scope LOKI_PUSH_
	metrics LOKI_PUSH_ 1
	default LOKI_PUSH_SPOOL "/var/spool/sf2loki/$lane"
	default LOKI_PUSH_SPOOL_BYTES 1GiB
	default LOKI_PUSH_SPOOL_RETENTION 30d
	default LOKI_PUSH_ON_DEAD_LETTER_ERROR stop
	exec loki-push
}

commit() {
	scope CKPT_
	metrics CKPT_ 2
	case $state in *://*) ;; *) default CKPT_LEDGER "${state%.json}.ledger" ;; esac
	exec ckpt commit "$state"
}

# stage NAME CMD...: run CMD and report its start and its end. A signal to the
# whole process group must not end the reporter first; it is ignored here, for a
# wait that a trap cuts short may lose the status in bash.
stage() {
	trap '' TERM INT HUP
	stage_name=$1
	shift
	exec 7<&0 # a background command would otherwise read /dev/null
	{
		trap - TERM HUP
		"$@"
	} <&7 7<&- 9>&- &
	printf 'start %s %d\n' "$stage_name" "$!" >&9
	wait "$!"
	printf 'end %s %d\n' "$stage_name" "$?" >&9
}

#
# Time. SF2LOKI_SECOND is the length of a second, which tests make short.
#

run=0 timers=''

# after SECONDS NAME: have the event NAME of this run come. Nothing is held
# open meanwhile. A signal to the whole group ends this too, which is why
# every such signal begins the next step anew.
after() {
	[ "$second" = 1 ] || set -- "$(awk "BEGIN { print $1 * $second }")" "$2"
	{
		sleep "$1" 9>&- &
		sleeper=$!
		trap 'kill "$sleeper"; exit' TERM
		wait "$sleeper" && printf 'timer %s %d\n' "$2" "$run" >&9
	} </dev/null >/dev/null 2>&1 5>&- &
	timers="$timers $!"
}

cancel_timers() {
	# shellcheck disable=SC2086 # a list of numbers
	[ -z "$timers" ] || kill $timers 2>/dev/null
	timers=''
}

jitter() { # N: N, and up to a quarter more
	echo $(($1 + $(od -An -N2 -tu2 /dev/urandom) % ($1 / 4 + 1)))
}

twice() { # N MAX
	if [ $(($1 * 2)) -lt "$2" ]; then echo $(($1 * 2)); else echo "$2"; fi
}

#
# The supervisor of one lane
#

# shellcheck disable=SC2317 # called by a trap
halt() { printf 'halt - 0\n' >&9; }

next_event() {
	event=''
	until read -r event name value <&9; do :; done # a trap ran; its line is next
}

show() { # STATE: what `sf2loki status` says of us
	{
		printf 'state %s\nsince %s\npid %d\nruns %d\nlast %s\n' "$1" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$me" "$run" "${last:-none}"
		printf '%s' "$stages" | sed 's/^/stage /'
	} >"$dir/state.new" && mv "$dir/state.new" "$dir/state"
}

add_stage() { # NAME PID
	stages="$stages$1 $2
"
}

drop_stage() { # NAME
	stages=$(printf '%s' "$stages" | grep -v "^$1 ")
	[ -z "$stages" ] || stages="$stages
"
}

signal_stages() { # SIGNAL
	log warn "msg=\"sending $1 to every stage\""
	# shellcheck disable=SC2046 # a list of numbers
	[ -z "$stages" ] || kill "-$1" $(printf '%s' "$stages" | sed 's/.* //') 2>/dev/null
}

# end_run: stop the head of the pipe. End of file carries that downstream; only
# who does not follow in time is told.
end_run() {
	[ -z "$ending" ] || return 0
	ending=1
	head_pid=$(printf '%s' "$stages" | sed -n 's/^sf-pull //p')
	[ -z "$head_pid" ] || kill -TERM "$head_pid" 2>/dev/null
	after "$head_grace" all
	show stopping
}

# take_event: what an event means for the run.
take_event() {
	case $event in
	start)
		add_stage "$name" "$value"
		log info "stage=$name pid=$value msg=started"
		[ -z "$ending" ] || [ "$name" != sf-pull ] || kill -TERM "$value" 2>/dev/null
		[ -z "$ending" ] && show running
		;;
	end)
		drop_stage "$name"
		ended=$((ended + 1))
		take_end
		;;
	halt)
		take_halt
		;;
	timer)
		[ "$value" = "$run" ] && take_timer
		;;
	esac
}

# take_halt: somebody told us to stop. When that was a signal to the whole
# group the head has had it too, and a second one would end it at once: it gets
# a moment first. A second signal that comes later tells every stage.
take_halt() {
	if [ -z "$asked" ]; then
		asked=1
		after 1 head
	elif [ -n "$ending" ]; then
		name=all
		take_timer
	fi
}

take_end() {
	if [ "$value" -eq 0 ]; then
		log info "stage=$name status=0 msg=ended"
	else
		log warn "stage=$name status=$value msg=ended"
		# What we kill is unfinished work, whatever signal it took.
		[ -z "$forced" ] || value=75
		[ "$status" -ne 0 ] || status=$value why=$name
	fi
	# The source has come to its end: the rest may take its time to drain.
	if [ "$name" != sf-pull ] || [ "$value" -ne 0 ]; then end_run; fi
}

take_timer() {
	case $name in
	good)
		retry=$retry_min loud=$loud_min
		log info 'msg="running well"'
		;;
	head) end_run ;;
	all)
		signal_stages TERM
		after "$grace" kill
		;;
	kill)
		forced=1
		signal_stages KILL
		;;
	esac
}

# watch: have the event gone come when no process holds the lane's FIFO open
# any more: all that a run started, and what those started.
watch_run() {
	exec 6<"$dir/alive"
	exec 8>&-
	{
		trap '' TERM INT HUP
		cat <&6 >/dev/null
		printf 'gone - %d\n' "$run" >&9
	} 5>&- &
	watcher=$!
	exec 6<&-
}

# run_once: one run of the pipeline. Leaves its status in $status, and in $why
# the stage that it comes from.
run_once() {
	run=$((run + 1)) status=0 why='' ending='' forced='' ended=0 stages=''
	find_resume || return 0
	exec 8<>"$dir/alive"
	{ stage sf-pull pull </dev/null | stage loki-push push | stage ckpt commit; } 5>&- &
	pipeline=$!
	watch_run
	after "$good" good
	while :; do
		next_event
		[ "$event" = gone ] && break
		take_event
	done
	cancel_timers
	wait "$pipeline" "$watcher" 2>/dev/null
	# A signal to the group may end a stage before it was one.
	[ "$ended" -eq 3 ] || [ "$status" -ne 0 ] || status=75 why='a lost stage'
	stages=''
	last="$(date -u +%Y-%m-%dT%H:%M:%SZ) status $status${why:+ of $why}"
}

# find_resume: where sf-pull reads the positions. A store that is no file is
# exported first: what fails there is never taken for a first start.
find_resume() {
	case $state in
	file:///*%*) ;;
	file:///*)
		resume=${state#file://}
		return
		;;
	*://*) ;;
	*)
		resume=$state
		return
		;;
	esac
	resume=$dir/resume.json
	(
		scope CKPT_
		exec ckpt export "$state" 5>&- 9>&-
	) >"$resume"
	status=$?
	[ "$status" -eq 0 ] || why='ckpt export'
	return "$status"
}

# pause SECONDS: wait, or be told to stop.
pause() {
	show "waiting $1 s"
	after "$1" wake
	while [ -z "$asked" ]; do
		next_event
		case $event in
		halt) asked=1 ;;
		timer) [ "$name" = wake ] && [ "$value" = "$run" ] && break ;;
		esac
	done
	cancel_timers
}

# leftovers: a supervisor that was killed leaves its stages behind. They are
# stopped as always, and nothing starts before the last of them has ended.
leftovers() {
	exec 8<>"$dir/alive"
	watch_run
	after 1 leftover
	while :; do
		next_event
		case $event in
		gone) break ;;
		halt) asked=1 ;;
		timer)
			if [ "$name" = leftover ]; then
				log warn 'msg="stages of an earlier run are still there, stopping them"'
				end_run
			else
				take_timer
			fi
			;;
		esac
	done
	cancel_timers
	wait "$watcher" 2>/dev/null
	stages=''
}

take_lock() {
	if ! mkdir -p "$dir" || ! touch "$dir/lock"; then die 73 "$dir cannot be made or written"; fi
	exec 5>>"$dir/lock"
	# A child of a supervisor that was killed may hold it for a moment more.
	flock -n 5 || { sleep 1 && flock -n 5; } || die 75 "$lane runs already, as process $(sed -n 's/^pid //p' "$dir/state" 2>/dev/null)"
	rm -f "$dir/events"
	mkfifo "$dir/events" || die 73 "$dir/events cannot be made"
	[ -p "$dir/alive" ] || mkfifo "$dir/alive" || die 73 "$dir/alive cannot be made"
	exec 9<>"$dir/events" # for both, so that neither side waits for the other
}

# run_lane LANE: run its pipeline until told to stop, or for good reason.
run_lane() {
	configure "$1" || exit
	command -v flock >/dev/null || die 69 'flock(1) is needed'
	asked='' last='' stages='' ending='' forced='' ended=0 status=0
	me=$(exec sh -c 'echo $PPID')
	take_lock
	trap halt TERM INT HUP
	stages=$(sed -n 's/^stage //p' "$dir/state" 2>/dev/null)
	stages=${stages:+$stages
}
	show starting
	log info "pid=$me state=$state msg=started"
	retry=$retry_min loud=$loud_min
	leftovers
	while [ -z "$asked" ]; do
		run_once
		[ -z "$asked" ] || break
		again || break
		status=0 # told to stop while nothing runs
	done
	show ended
	log info "status=$status msg=ended"
	exit "$status"
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
		delay=$(jitter "$loud")
		log error "stage=${why:-?} status=$status retry_in=${delay}s msg=\"needs somebody's attention\""
		loud=$(twice "$loud" "$loud_max")
		;;
	*)
		delay=$(jitter "$retry")
		log warn "stage=${why:-?} status=$status retry_in=${delay}s msg=\"starting again\""
		retry=$(twice "$retry" "$retry_max")
		;;
	esac
	pause "$delay"
}
